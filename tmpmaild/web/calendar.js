// Reads the first event in a calendar file (RFC 5545). Does not access page elements.

// Return `title`, `where`, `zone` and `times`. `times` contains the start and, if given, the end: each in milliseconds,
// with a flag that indicates whether it includes a time of day. A result without times is not an event. Times that are
// not in UTC are in the time zone `zone`, or in local time at the place of the event.
export function eventOf(calendar) {
  const [, event = ""] = calendar.replaceAll(/\r?\n[ \t]/g, "").split(/^(?:BEGIN|END):VEVENT/m);
  // Quoted parameters, such as Outlook's time zones, may contain any character: TZID="(UTC+01:00) Amsterdam, Berlin".
  const of = (name) => new RegExp(`^${name}((?:;(?:"[^"\n]*"|[^":\n])*)?):(.*)$`, "m").exec(event) ?? ["", "", ""];
  const text = (name) => of(name)[2].slice(0, 500).replaceAll(/\\n/gi, " ").replaceAll(/\\(.)/g, "$1");
  const [, zone = ""] = /;TZID="?([^";]{1,60})/.exec(of("DTSTART")[1]) ?? [];
  const times = ["DTSTART", "DTEND"].flatMap((name) => timeOfEvent(of(name)[2], name));
  return { title: text("SUMMARY"), where: text("LOCATION"), zone, times: times.filter(([ms]) => ms >= times[0][0]) };
}

// An end date is the first day after the event, so twelve hours earlier is still on the last day.
function timeOfEvent(text, name) {
  const [, year, month, day, time, utc = ""] = /^(\d{4})(\d\d)(\d\d)(?:T(\d{6})(Z?))?/.exec(text) ?? [];
  const ms = Date.parse(`${year}-${month}-${day}T${(time ?? "000000").replace(/..\B/g, "$&:")}${utc}`);
  return ms ? [[ms - (name === "DTEND" && !time && 43_200_000), time]] : [];
}
