//! Goal: a service that compares a header refuses a stale holder with 412.
//!
//! Method: a server of a few lines in this process, which keeps the largest token of each object, and a
//! client that speaks to it over TCP.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
};

use quorlock::Lease;

use super::{next_lease, short_lease, token, two_clients};

/// What the service keeps of an object: the largest token, and the body that came with it.
type Objects = HashMap<String, (u64, Vec<u8>)>;

/// Serves one request after the other, so that comparing and storing are one step, until the process ends.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut objects = Objects::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (status, body) = answer(&mut objects, &stream);
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    address
}

fn answer(objects: &mut Objects, stream: &TcpStream) -> (&'static str, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let (mut token, mut length) = (None, 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "x-fencing-token" => token = value.parse::<u64>().ok(),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    match (method.as_str(), token) {
        ("GET", _) => match objects.get(&path) {
            Some((_, body)) => ("200 OK", body.clone()),
            None => ("404 Not Found", Vec::new()),
        },
        ("PUT", None) => ("428 Precondition Required", Vec::new()),
        ("PUT", Some(token)) => match objects.get(&path) {
            Some((largest, _)) if *largest > token => ("412 Precondition Failed", Vec::new()),
            _ => {
                objects.insert(path, (token, body));
                ("204 No Content", Vec::new())
            }
        },
        _ => ("405 Method Not Allowed", Vec::new()),
    }
}

/// One request; the status and the body of the answer.
fn request(service: SocketAddr, method: &str, token: Option<u64>, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(service).unwrap();
    let header = token.map_or_else(String::new, |token| format!("X-Fencing-Token: {token}\r\n"));
    let length = body.len();
    write!(
        stream,
        "{method} /invoice/42 HTTP/1.1\r\nHost: store\r\n{header}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn a_stale_put_is_answered_with_412() {
    let service = serve();
    let put = |lease: &Lease, body: &str| request(service, "PUT", Some(token(lease)), body).0;
    let (a, b) = two_clients().await;
    let stale = short_lease(&a).await;
    assert_eq!(request(service, "PUT", None, "by nobody").0, 428, "a write without a token");
    assert_eq!(request(service, "GET", None, "").0, 404);
    assert_eq!(put(&stale, "of the first"), 204);
    assert_eq!(put(&stale, "of the first again"), 204, "an equal token is its holder's repeat");
    let current = next_lease(&b, &stale).await;
    assert_eq!(put(&current, "of the second"), 204);
    assert_eq!(put(&stale, "late"), 412, "the first one is refused");
    assert_eq!(request(service, "GET", None, ""), (200, "of the second".to_owned()));
    current.release().await.unwrap();
}
