//! How text of others is shown: names, values, and what servers say of themselves.
//!
//! It decides that a terminal shows it and does nothing else: what would move the cursor, colour, hide or turn round text is written
//! as an escape. It must never make two different names look alike.

use std::{borrow::Cow, time::Duration};

use serde_json::Value;

/// Text in which nothing acts on a terminal.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    text.chars().fold(String::with_capacity(text.len() + 8), pushed).into()
}

/// As in `1 lease` and `2 leases`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// As in `12:03:04.250Z`, of a time since 1970.
pub(crate) fn time_of_day(at: Duration) -> String {
    let (minutes, second) = (at.as_secs() / 60, at.as_secs() % 60);
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:03}Z", at.subsec_millis())
}

/// A name, of which each byte can be told: a shell reads it back from `$'…'`.
pub(crate) fn name(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                shown.push('\\');
            }
            shown = pushed(shown, c);
        }
        shown.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    shown
}

/// The same for programs: unchanged where it is UTF-8.
pub(crate) fn text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| name(bytes), str::to_owned)
}

/// The fields that say which resource it is: `resource`, and where that is no UTF-8 `resource_hex` with all of its bytes.
pub(crate) fn resource(bytes: &[u8]) -> Value {
    let mut fields = serde_json::Map::new();
    fields.insert("resource".to_owned(), text(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        fields.insert("resource_hex".to_owned(), hex.into());
    }
    Value::Object(fields)
}

/// One line of JSON that a terminal shows as it is: within its strings what acts is an escape of JSON.
pub(crate) fn line_of_json(json: &str) -> Cow<'_, str> {
    if !json.contains(acts) {
        return Cow::Borrowed(json);
    }
    let escaped =
        |c: char| if acts(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escaped).collect::<String>().into()
}

fn pushed(mut shown: String, c: char) -> String {
    match u8::try_from(c) {
        _ if !acts(c) => shown.push(c),
        Ok(byte) if byte.is_ascii() => shown.extend(byte.escape_ascii().map(char::from)),
        _ => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
    }
    shown
}

/// Whether a terminal does something at it, or shows nothing, or turns round what follows.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(plain("caf\u{e9} \u{1f512} a\\b"), "caf\u{e9} \u{1f512} a\\b");
        assert_eq!(plain("a\u{1b}[31m\n\u{9b}8m\u{7f}"), r"a\x1b[31m\n\u009b8m\x7f");
        assert_eq!(plain("\u{202e}gpj"), r"\u202egpj");
        assert_eq!(line_of_json("{\"a\":\"\u{9b}\u{7f}\"}"), r#"{"a":"\u009b\u007f"}"#);
    }

    #[test]
    fn names_can_be_told_from_each_other_and_read_back() {
        let names: [&[u8]; 6] =
            [b"a\x1b", br"a\x1b", b"a\xff", br"a\xff", "a\u{ff}".as_bytes(), b"a\\\x1b"];
        let mut shown: Vec<String> = names.iter().map(|bytes| name(bytes)).collect();
        assert_eq!(shown, [r"a\x1b", r"a\\x1b", r"a\xff", r"a\\xff", "a\u{ff}", r"a\\\x1b"]);
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), names.len());
        let [plain, bytes] = [resource(names[0]), resource(names[2])];
        assert_eq!((&plain["resource"], plain.get("resource_hex")), (&"a\u{1b}".into(), None));
        assert_eq!(
            (&bytes["resource"], &bytes["resource_hex"]),
            (&r"a\xff".into(), &"61ff".into())
        );
    }
}
