/// <reference lib="esnext.disposable" />
/** The types of quorlock.mjs, where all is explained. */
export class QuorlockError extends Error {}
export class Busy extends QuorlockError {}
export class NoQuorum extends QuorlockError {}
export class Lost extends QuorlockError {}
export class Released extends Lost {}
export type Option = string | number | boolean | null | undefined;
export interface Options {
  /** Each a whole number and a unit, as in "5s". */
  wait?: string;
  ttl?: string;
  holdAtLeast?: string;
  lockDelay?: string;
  try?: boolean;
  elect?: boolean;
  shared?: boolean;
  semaphore?: number;
  also?: string | readonly string[];
  nodes?: string | readonly string[];
  set?: string | readonly string[];
  signal?: AbortSignal;
  program?: string;
  [option: string]: Option | readonly Option[] | AbortSignal;
}
export interface Lease extends AsyncDisposable {
  readonly resource: string;
  readonly owner: string;
  /** None with `classic`. */
  readonly token: number;
  readonly also?: string[];
  readonly slot: number | null;
  readonly term: number | null;
  readonly signal: AbortSignal;
  check(): Promise<number>;
  release(): Promise<void>;
}
export function hold(name: string, options?: Options): Promise<Lease>;
export function withLease<T>(name: string, work: (lease: Lease) => T | Promise<T>): Promise<T>;
export function withLease<T>(name: string, options: Options, work: (lease: Lease) => T | Promise<T>): Promise<T>;
