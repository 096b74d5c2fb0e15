"use strict";
// The tree of the subjects that clients subscribe to, one level at a time, and the balance of queue groups.
let prefix = "", chosenGroup = "";
const subjectPages = pager("subjects-pager"), groupPages = pager("groups-pager");

const subjectsAccount = () => at("subjects-account").value || "$G";
const groupName = (one) => one.subject + " " + one.queue;

pages.subjects = async () => {
  const account = subjectsAccount(), wanted = prefix;
  const asked = (more, cut) => get("console/interest", { account, prefix: wanted, ...more, ...cut.fields() });
  const [tokens, groups] = await Promise.all([asked({}, subjectPages), asked({ groups: "1" }, groupPages)]);
  if (wanted !== prefix) return;
  const count = (found, key) => new Map(found.entries.map((one) => [key(one), one.messages]));
  const rate = ratesOf("subjects " + account + wanted, count(tokens, (one) => one.subject));
  subjectPages.show(tokens.total); groupPages.show(groups.total);
  show("subjects-shown", wanted ? "below " + wanted.slice(0, -1) : "all");
  fill("subject-list", ["subject", "here", "below", "messages", "per second"],
    tokens.entries.map((one) => [one.subject, one.subscriptions, one.below, one.messages, short(rate.get(one.subject))]), goBelow);
  const groupRate = ratesOf("groups " + account + wanted, count(groups, groupName));
  fill("group-list", ["group", "members", "messages", "per second", "most", "least", "balance"], groups.entries.map((one) =>
    [groupName(one), one.subscriptions, one.messages, short(groupRate.get(groupName(one))), one.members[0].messages, one.least, balance(one)]), chooseGroup, chosenGroup);
  const chosen = groups.entries.find((one) => groupName(one) === chosenGroup);
  at("group").hidden = !chosen;
  if (chosen) showGroup(chosen);
};

// Even is what members that are chosen at random would come to.
function balance({ subscriptions, messages, least, members: [{ messages: most }] }) {
  if (subscriptions < 2) return "one member";
  if (messages < 20 * subscriptions) return "too few messages";
  return most - least <= 6 * Math.sqrt(messages / subscriptions) + 1 ? "even" : "uneven";
}

function showGroup(group) {
  const name = groupName(group);
  const rate = ratesOf("members " + name, new Map(group.members.map((one, i) => [one.cid + " " + i, one.messages])));
  show("group-name", name);
  fill("members", ["cid", "name", "messages", "per second", "share"], group.members.map((one, i) => [one.cid, one.name, one.messages,
    short(rate.get(one.cid + " " + i)), group.messages ? (100 * one.messages / group.messages).toFixed(1) + " %" : ""]),
  (cid) => { location.hash = "#clients/" + cid; });
}

function goTree(wanted) {
  prefix = wanted && !wanted.endsWith(".") ? wanted + "." : wanted;
  subjectPages.offset = groupPages.offset = 0;
  at("subjects-prefix").value = prefix.slice(0, -1);
  at("subjects-up").disabled = !prefix;
  if (page === "subjects") { address("subjects", prefix.slice(0, -1)); look(); }
}

function goBelow(subject) { goTree(subject); }
function chooseGroup(name) { chosenGroup = name; look(); }

at("subjects-form").onsubmit = (event) => { event.preventDefault(); goTree(at("subjects-prefix").value); };
at("subjects-up").onclick = () => goTree(prefix.slice(0, -1).split(".").slice(0, -1).join("."));
at("subjects-account").onchange = () => goTree("");
choices.subjects = (wanted) => { if (wanted !== prefix.slice(0, -1)) goTree(wanted); };
at("subjects-up").disabled = true;
