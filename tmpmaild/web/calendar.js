// Reads the first event of a calendar (RFC 5545). Touches nothing of the page.

// Return `title`, `where`, `zone` and `times`, the begin and the end as far as they are said, each in milliseconds and with what it
// says of the time of day; without any it is no event. A time that is not of UTC is that of its zone, or of the place.
export function eventOf(calendar) {
  const [, event = ""] = calendar.replaceAll(/\r?\n[ \t]/g, "").split(/^(?:BEGIN|END):VEVENT/m);
  // A parameter in quotes may have any sign, as the zones of Outlook have: TZID="(UTC+01:00) Amsterdam, Berlin".
  const of = (name) => new RegExp(`^${name}((?:;(?:"[^"\n]*"|[^":\n])*)?):(.*)$`, "m").exec(event) ?? ["", "", ""];
  const text = (name) => of(name)[2].slice(0, 500).replaceAll(/\\n/gi, " ").replaceAll(/\\(.)/g, "$1");
  const [, zone = ""] = /;TZID="?([^";]{1,60})/.exec(of("DTSTART")[1]) ?? [];
  const times = ["DTSTART", "DTEND"].flatMap((name) => timeOfEvent(of(name)[2], name));
  return { title: text("SUMMARY"), where: text("LOCATION"), zone, times: times.filter(([ms]) => ms >= times[0][0]) };
}

// An end that is a day is the first day after the event: twelve hours before it, it is still the last one.
function timeOfEvent(text, name) {
  const [, year, month, day, time, utc = ""] = /^(\d{4})(\d\d)(\d\d)(?:T(\d{6})(Z?))?/.exec(text) ?? [];
  const ms = Date.parse(`${year}-${month}-${day}T${(time ?? "000000").replace(/..\B/g, "$&:")}${utc}`);
  return ms ? [[ms - (name === "DTEND" && !time && 43_200_000), time]] : [];
}
