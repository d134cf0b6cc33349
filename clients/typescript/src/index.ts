// The exports of the package: `import { … } from "tmpmaild"`.

export type { AllFilter, AllMail, AllWait } from "./allmail.js";
export { type Service, type SmtpServer, type StartOptions, startTmpmaild } from "./daemon.js";
export {
  ConnectionLost,
  NotAuthenticated,
  NotInMail,
  NotStarted,
  NotTmpmaild,
  Problem,
  ServiceUnreachable,
  TmpmaildError,
  UnexpectedMail,
  WaitTimeout,
} from "./errors.js";
export type { Event } from "./following.js";
export type { Filter, Inbox, Wait } from "./inbox.js";
export type { Abortable, Attachment, LinkWanted, Mail, Page } from "./mail.js";
export type {
  CodeItem,
  FaultItem,
  FullMessageItem,
  LinkItem,
  MessageItem,
  ProblemCode,
  RefusalItem,
  WebhookItem,
  WebhookRequest,
} from "./openapi.js";
export type { Has } from "./remote.js";
export { type RunOptions, startForRun } from "./run.js";
export { type NewInbox, Tmpmaild } from "./service.js";
