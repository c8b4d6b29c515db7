// The one script of the payment page. Without it everything works; with it the page formats what
// is typed, copies codes, counts down, and notices by itself when the payment has arrived.
(() => {
"use strict";

const page = document;
const live = page.getElementById("live");
const offline = page.getElementById("offline");
const policy = window.trustedTypes
  ? trustedTypes.createPolicy("co", { createHTML: (html) => html })
  : { createHTML: (html) => html };

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const POLL = 3 * SECOND, POLL_LATER = 10 * SECOND, POLL_HIDDEN = 15 * SECOND, POLL_SLOW = 30 * SECOND;

let main = page.getElementById("main");
// A refused form is answered at the form's own address; the page itself lives here.
const home = (main.dataset.fragment || location.pathname).split("?")[0];
const renew = () => location.replace(main.dataset.fragment ? main.dataset.fragment.replace("f=1&", "") : home);
let stopTimers = [];
// Kept by the page's own stopwatch: the device's clock may be wrong, or set while we look.
const now = () => performance.now();
const all = (selector, root = page) => [...root.querySelectorAll(selector)];
const one = (selector, root = page) => root.querySelector(selector);
const say = (words) => { live.textContent = ""; setTimeout(() => { live.textContent = words; }, 50); };
const every = (delay, work) => { const timer = setInterval(work, delay); stopTimers.push(() => clearInterval(timer)); };
// A browser's timer counts no further than this; a longer one would ring at once.
const LONGEST = 2 ** 31 - 1;
const after = (delay, work) => { const timer = setTimeout(work, Math.min(delay, LONGEST)); stopTimers.push(() => clearTimeout(timer)); };
const remember = (key, value) => { try { sessionStorage.setItem(key, value); } catch { /* not allowed here */ } };
const recall = (key) => { try { return sessionStorage.getItem(key); } catch { return null; } };
const forget = (key) => { try { sessionStorage.removeItem(key); } catch { /* not allowed here */ } };

/* What is typed */

const digitsOf = (text) => text.replace(/\D/g, "");
const grouped = (text, sizes, marks) => {
  let written = "", at = 0;
  sizes.forEach((size, index) => {
    if (at < text.length) written += (index ? marks[index - 1] : "") + text.slice(at, at + size);
    at += size;
  });
  return written;
};

const MASKS = {
  document(text) {
    const plain = text.toUpperCase().replace(/[^0-9A-Z]/g, "").slice(0, 14);
    return /^\d{0,11}$/.test(plain)
      ? grouped(plain, [3, 3, 3, 2], [".", ".", "-"])
      : grouped(plain, [2, 3, 3, 4, 2], [".", ".", "/", "-"]);
  },
  phone(text) {
    let digits = digitsOf(text);
    if (/^\s*\+55/.test(text) || (digits.length > 11 && digits.startsWith("55"))) digits = digits.slice(2);
    digits = digits.slice(0, 11);
    if (digits.length < 3) return digits;
    return "(" + digits.slice(0, 2) + ") " + grouped(digits.slice(2), digits.length > 10 ? [5, 4] : [4, 4], ["-"]);
  },
  postal: (text) => grouped(digitsOf(text).slice(0, 8), [5, 3], ["-"]),
  card(text) {
    const digits = digitsOf(text).slice(0, 19);
    return /^3[47]/.test(digits)
      ? grouped(digits.slice(0, 15), [4, 6, 5], [" ", " "])
      : grouped(digits, [4, 4, 4, 4, 3], [" ", " ", " ", " "]);
  },
  expiry(text) {
    let digits = digitsOf(text);
    if (/^[2-9]/.test(digits) || /^1\s*\//.test(text)) digits = "0" + digits;
    const isLong = digits.length > 4 && digits.slice(2, 4) === "20";
    if (isLong && digits.length > 5) digits = digits.slice(0, 2) + digits.slice(4, 6);
    return grouped(digits.slice(0, isLong ? 5 : 4), [2, 3], ["/"]);
  },
  code: (text) => digitsOf(text).slice(0, 4),
};

// The caret stays behind the same letter or digit that it stood behind before.
const applyMask = (field) => {
  const written = MASKS[field.dataset.mask](field.value);
  if (written === field.value) return;
  const caret = field.selectionStart;
  const isAtEnd = caret === null || caret >= field.value.length;
  const behind = isAtEnd ? 0 : field.value.slice(0, caret).replace(/[^0-9A-Za-z]/g, "").length;
  field.value = written;
  if (isAtEnd || page.activeElement !== field) return;
  let place = 0;
  for (let seen = 0; place < written.length && seen < behind; place++) {
    if (/[0-9A-Za-z]/.test(written[place])) seen++;
  }
  field.setSelectionRange(place, place);
};

const BRANDS = [
  ["Elo", /^(4011(78|79)|431274|438935|451416|457393|45763[12]|504175|50(6699|67[0-6]\d|677[0-8])|509\d{3}|627780|636297|63636[89]|6500(3[1-35-9]|4\d|5[01])|6504(0[5-9]|[1-3]\d)|650(48[5-9]|49\d|5[0-2]\d|53[0-8])|6505(4[1-9]|[5-8]\d|9[0-8])|6507(0\d|1[0-8]|2[0-7])|6509|6516(5[2-9]|[67]\d)|6550[0-5]\d)/],
  ["Hipercard", /^(606282|3841)/], ["Amex", /^3[47]/], ["Diners", /^3(0[0-5]|[689])/], ["Visa", /^4/],
  ["Mastercard", /^(5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/], ["JCB", /^35/], ["Discover", /^6(011|4[4-9]|5)/],
];

const sumMod = (values, weights) => {
  const rest = weights.reduce((sum, weight, index) => sum + weight * values[index], 0) % 11;
  return rest < 2 ? 0 : 11 - rest;
};
const isDocument = (text) => {
  const plain = text.toUpperCase().replace(/[^0-9A-Z]/g, "");
  const values = [...plain].map((character) => character.charCodeAt(0) - 48);
  const isCpf = /^\d{11}$/.test(plain);
  if (/^(.)\1+$/.test(plain) || !(isCpf || /^[0-9A-Z]{12}\d{2}$/.test(plain))) return false;
  const weights = isCpf ? [11, 10, 9, 8, 7, 6, 5, 4, 3, 2] : [6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2];
  const last = weights.length;
  return sumMod(values, weights.slice(1)) === values[last - 1] && sumMod(values, weights) === values[last];
};
const isCard = (text) => {
  const digits = digitsOf(text);
  const sum = [...digits].reverse().reduce((total, digit, index) => {
    const value = digit * (index % 2 + 1);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return digits.length >= 12 && sum % 10 === 0 && digits[0] !== "0";
};

// A first look, so that a slip does not cost the card number; the server decides.
const CHECKS = {
  filled: (text) => text.trim() !== "",
  name: (text) => /\S+\s+\S+/.test(text.trim()),
  holder: (text) => text.trim().length > 1,
  email: (text) => /^[^\s@]+@[^\s@]+\.[^\s@]{2,}$/.test(text.trim()),
  document: isDocument,
  phone: (text) => /^\d{10,11}$/.test(digitsOf(MASKS.phone(text))),
  postal: (text) => digitsOf(text).length === 8,
  card: isCard,
  expiry: (text) => /^(0[1-9]|1[0-2])\/\d{2}$/.test(MASKS.expiry(text)),
  code: (text) => /^\d{3,4}$/.test(text),
};

const blame = (field, words) => {
  const place = page.getElementById(field.id + "-e");
  if (!place) return;
  place.textContent = words;
  if (words) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
};
const faultOf = ({ value, dataset }) => (!value.trim() && dataset.missing) || dataset.error;
const isShown = (field) => field.offsetParent !== null;
const isWrong = (field) => {
  const isEmpty = field.value.trim() === "";
  return isEmpty ? field.required : !CHECKS[field.dataset.check](field.value);
};

const SLIPS = {
  "gmial.com": "gmail.com", "gmai.com": "gmail.com", "gamil.com": "gmail.com", "gmail.con": "gmail.com",
  "gmail.com.br": "gmail.com", "hotmial.com": "hotmail.com", "hotmail.con": "hotmail.com",
  "hotmai.com": "hotmail.com", "outlok.com": "outlook.com", "outlook.con": "outlook.com", "yaho.com.br": "yahoo.com.br",
};
const hintEmail = (field) => {
  const hint = one(".did-you-mean");
  if (!hint) return;
  const [user, host] = field.value.trim().toLowerCase().split("@");
  const meant = SLIPS[host];
  hint.hidden = !meant;
  if (!meant) return;
  const button = hint.firstElementChild;
  button.textContent = hint.dataset.template.replace("{email}", user + "@" + meant);
  button.onclick = () => { field.value = user + "@" + meant; hint.hidden = true; field.focus(); };
};

page.addEventListener("input", ({ target }) => {
  if (!target.name) return;
  if (target.dataset.mask) applyMask(target);
  if (target.getAttribute("aria-invalid")) blame(target, "");
  if (target.name === "cc_number") {
    const found = BRANDS.find(([, digits]) => digits.test(digitsOf(target.value)));
    one(".card-brand").textContent = found ? found[0] : "";
  }
  if (target.name === "cc_name") target.dataset.touched = "1";
  if (target.name === "name") {
    const holder = page.getElementById("f-cc_name");
    if (holder && !holder.dataset.touched) holder.value = target.value;
  }
});
page.addEventListener("change", ({ target }) => {
  if (target.name === "installments") showPrice();
  if (target.name === "lang") { keepTyped(); target.form.submit(); }
});
// A message that appears while a button is being pressed would move the button away.
let isPressed = false;
page.addEventListener("pointerdown", () => { isPressed = true; });
for (const kind of ["pointerup", "pointercancel"]) page.addEventListener(kind, () => { isPressed = false; });
const whenReleased = (work) => {
  if (isPressed) page.addEventListener("pointerup", () => setTimeout(work, 100), { once: true });
  else work();
};
page.addEventListener("focusout", ({ target }) => whenReleased(() => {
  if (target.dataset.check && target.value.trim() !== "" && isWrong(target)) blame(target, faultOf(target));
  if (target.name === "email") hintEmail(target);
}));

const showPrice = () => {
  const select = page.getElementById("f-installments");
  const label = one(".by-card");
  if (select && label && select.selectedOptions[0]) label.textContent = select.selectedOptions[0].dataset.button;
};

/* What is sent */

const setBusy = (button, isBusy) => {
  if (!button || !button.dataset.busy || Boolean(button.label) === isBusy) return;
  if (isBusy) {
    button.label = [...button.childNodes];
    button.setAttribute("aria-busy", "true");
    button.textContent = button.dataset.busy;
  } else {
    button.replaceChildren(...button.label);
    button.label = null;
    button.removeAttribute("aria-busy");
  }
};
const setFree = (form) => {
  delete form.dataset.sent;
  all("[data-busy]", form).forEach((button) => setBusy(button, false));
};

page.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) { event.preventDefault(); return; }
  if ("pay" in form.dataset) {
    const wrong = all("[data-check]", form).filter((field) => isShown(field) && isWrong(field));
    wrong.forEach((field) => blame(field, faultOf(field)));
    if (wrong.length) {
      event.preventDefault();
      // What was wrong with the last try is not what is wrong with this one.
      all(".alert", form).forEach((old) => old.remove());
      wrong[0].focus();
      say(faultOf(wrong[0]));
      return;
    }
  }
  if ("keep" in form.dataset) keepTyped();
  form.dataset.sent = "1";
  setBusy(event.submitter || one("[data-busy]", form), true);
  setTimeout(() => setFree(form), 20 * SECOND);
});

// What belongs to another way to pay is not sent; above all not a card's number.
page.addEventListener("formdata", ({ target, formData }) => {
  for (const method of all(".method", target)) {
    if (one("[type=radio]", method).checked) continue;
    all(".panel [name]", method).forEach((field) => formData.delete(field.name));
  }
});

// A coupon or another language loads the page anew: what was typed stays, except a card.
const KEPT = "typed:" + home;
const keepTyped = () => {
  const form = one("[data-pay]");
  if (!form) return;
  const kept = [...new FormData(form)].filter(([name]) => name !== "form_nonce" && !/^cc_(number|exp|csc)/.test(name));
  remember(KEPT, JSON.stringify(kept));
};
const putBack = (pairs) => {
  const form = one("[data-pay]");
  if (!form) return;
  for (const [name, value] of pairs) {
    const field = form.elements[name];
    if (field && value) field.value = value;
  }
};

/* Buttons */

const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = Object.assign(page.createElement("textarea"), { value: text, readOnly: true, className: "vh" });
    page.body.append(area);
    area.select();
    let isCopied = false;
    try { isCopied = page.execCommand("copy"); } catch { /* told below */ }
    area.remove();
    return isCopied;
  }
};

const copy = async (button) => {
  const source = page.getElementById(button.dataset.copy);
  const isCopied = await copyText(source.dataset.code || source.value);
  if (!isCopied) { source.focus(); source.select(); say(button.dataset.failed); return; }
  button.focus();
  const label = one("span", button);
  if (!button.dataset.words) button.dataset.words = label.textContent;
  label.textContent = button.dataset.done;
  button.classList.add("copied");
  say(button.dataset.done);
  clearTimeout(button.timer);
  button.timer = setTimeout(() => {
    label.textContent = button.dataset.words;
    button.classList.remove("copied");
  }, 3 * SECOND);
};

const checkNow = async (link) => {
  if (link.getAttribute("aria-busy")) return;
  const words = link.textContent;
  link.setAttribute("aria-busy", "true");
  link.textContent = link.dataset.checkNow;
  await poll();
  if (!link.isConnected) return;
  link.removeAttribute("aria-busy");
  link.textContent = words;
  const place = one("[data-not-yet]");
  place.textContent = place.dataset.notYet;
  say(place.dataset.notYet);
};

const fillIn = () => {
  const values = { name: "Maria de Teste", email: "maria@exemplo.com.br", document: "52998224725", phone: "11987654321",
    postal_code: "01310100", street: "Avenida Paulista", street_number: "1000", neighborhood: "Bela Vista",
    city: "São Paulo", state: "SP", cc_number: "4242424242424242", cc_exp: "12/30", cc_csc: "123" };
  for (const [name, value] of Object.entries(values)) {
    const field = page.getElementById("f-" + name);
    if (!field) continue;
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
};

page.addEventListener("click", (event) => {
  const target = event.target.closest("button, a");
  if (!target) return;
  const data = target.dataset;
  if (data.copy) copy(target);
  else if (data.checkNow) { event.preventDefault(); checkNow(target); }
  else if (data.choose) { event.preventDefault(); const choice = page.getElementById(data.choose); choice.checked = true; choice.focus(); }
  else if ("print" in data) window.print();
  else if ("fill" in data) fillIn();
  else if ("stay" in data) { stopLeaving(); target.closest(".leaving").hidden = true; page.getElementById("c").focus(); }
});

/* Time */

let deadline = null;
const told = new Set();

const startCountdown = (seconds) => {
  const place = one(".countdown");
  if (!place) return;
  deadline = now() + seconds * SECOND;
  const tick = () => {
    const left = Math.max(0, Math.ceil((deadline - now()) / SECOND));
    place.hidden = left > 600;
    place.textContent = String(Math.floor(left / 60)).padStart(2, "0") + ":" + String(left % 60).padStart(2, "0");
    for (const [mark, words] of [[300, place.dataset.five], [60, place.dataset.one]]) {
      if (left <= mark && left > mark - 5 && !told.has(mark)) { told.add(mark); say(words); }
    }
    if (left === 0 && !told.has(0)) { told.add(0); after(500, () => swap(true)); }
  };
  tick();
  every(SECOND / 2, tick);
};

let stopLeaving = () => {};
const STAYED = "left:" + home;
// Nobody shall arrive at the shop before it has heard of the payment, if it hears soon.
const untilTold = async (url) => {
  for (let tries = 0; tries < 5; tries++) {
    const reply = await fetch(url, { cache: "no-store", signal: timeLimit(SECOND) }).catch(() => null);
    if (reply && reply.status !== 202) return;
    await new Promise((done) => setTimeout(done, SECOND));
  }
};
const startLeaving = async () => {
  const link = one("[data-redirect]");
  const place = one(".leaving");
  // Whoever comes back from the shop stays.
  if (!link || !place || recall(STAYED)) return;
  await untilTold(place.dataset.told);
  if (!place.isConnected) return;
  let left = Number(link.dataset.redirect);
  place.classList.remove("off");
  const write = () => { place.firstElementChild.textContent = place.dataset.leaving.replace("{n}", left); };
  write();
  const timer = setInterval(() => {
    if (page.hidden) return;
    left -= 1;
    write();
    if (left > 0) return;
    stopLeaving();
    remember(STAYED, "1");
    location.assign(link.href);
  }, SECOND);
  stopLeaving = () => { clearInterval(timer); remember(STAYED, "1"); };
  stopTimers.push(() => clearInterval(timer));
};

/* Live status */

let shownAt = now();
let failures = 0;
let timer = null;
let running = null;
// What the page was last renewed for: the same news never renews it twice.
let lastNews = "";

const pause = () => {
  const { state } = main.dataset;
  if (state === "in_review" || state === "expired" || state === "cancelled") return POLL_SLOW;
  if (page.hidden) return POLL_HIDDEN;
  return now() - shownAt < 5 * MINUTE ? POLL : POLL_LATER;
};
const isOver = () => !main.dataset.poll || (main.dataset.state === "expired" && now() - shownAt > 10 * MINUTE);
const schedule = (delay) => {
  clearTimeout(timer);
  if (!isOver()) timer = setTimeout(poll, delay);
};

const askOnce = async () => {
  let delay = pause();
  try {
    const reply = await fetch(main.dataset.poll, { cache: "no-store", signal: timeLimit(10 * SECOND) });
    if (reply.status === 429) {
      delay = Math.max(delay, (Number(reply.headers.get("retry-after")) || 5) * SECOND);
    } else if (reply.status === 404) {
      renew();
    } else if (!reply.ok) {
      throw new Error(String(reply.status));
    } else {
      const { data } = await reply.json();
      const { version, state } = main.dataset;
      const news = data.stateVersion + " " + data.pageState;
      const isNew = String(data.stateVersion) !== version || (data.pageState && data.pageState !== state);
      if (isNew && news !== lastNews) { await swap(false); lastNews = news; }
      else if (data.payment && data.payment.expiresInSeconds != null && deadline !== null) {
        deadline = now() + data.payment.expiresInSeconds * SECOND;
      }
      delay = pause();
    }
    failures = 0;
  } catch {
    failures += 1;
    delay = Math.min(POLL_SLOW, POLL * 2 ** (failures - 1));
  }
  if (failures === 2) say(offline.textContent);
  offline.hidden = failures < 2;
  schedule(delay);
};

const poll = () => {
  if (isOver()) return Promise.resolve();
  clearTimeout(timer);
  running ||= askOnce().finally(() => { running = null; });
  return running;
};

const timeLimit = (delay) => {
  const control = new AbortController();
  setTimeout(() => control.abort(), delay);
  return control.signal;
};

// Puts the new state in place of the old one, without a navigation.
const swap = async (isByClock) => {
  let fresh, title;
  try {
    const reply = await fetch(main.dataset.fragment, { cache: "no-store", signal: timeLimit(10 * SECOND) });
    if (reply.status >= 500 || reply.status === 429) throw new Error(String(reply.status));
    const parsed = new DOMParser().parseFromString(policy.createHTML(await reply.text()), "text/html");
    fresh = one("main", parsed);
    title = parsed.title;
  } catch (error) {
    if (isByClock) { after(POLL, () => swap(true)); return; }
    throw error;
  }
  if (!fresh) { renew(); return; }
  const isSame = fresh.dataset.state === main.dataset.state;
  if (isSame && isByClock && fresh.dataset.version === main.dataset.version) {
    told.delete(0);
    after(SECOND, () => swap(true));
    return;
  }
  const form = one("[data-pay]");
  const typed = form ? [...new FormData(form)].filter(([name]) => name !== "form_nonce") : [];
  const focused = isSame && page.activeElement && page.activeElement.id;
  const heading = () => page.getElementById("c");
  page.adoptNode(fresh);
  main.replaceWith(fresh);
  main = fresh;
  if (title) page.title = title;
  putBack(typed);
  start();
  const target = (focused && page.getElementById(focused)) || one("[data-focus]") || heading();
  target.focus();
  if (!isSame) { scrollTo(0, 0); say(heading().textContent); }
};

/* Begin */

const wide = matchMedia("(min-width: 53.75rem)");
const openOrder = () => {
  for (const order of all("[data-wide-open]")) {
    order.open = wide.matches;
    order.firstElementChild.tabIndex = wide.matches ? -1 : 0;
  }
};

const start = () => {
  stopTimers.forEach((stop) => stop());
  stopTimers = [];
  told.clear();
  deadline = null;
  shownAt = now();
  openOrder();
  showPrice();
  all("[data-mask]").forEach((field) => { if (field.value) applyMask(field); });
  const countdown = one(".countdown");
  if (countdown) startCountdown(Number(countdown.dataset.seconds));
  const slow = one("[data-slow]");
  if (slow) after(slow.dataset.slowIn * SECOND, () => { slow.textContent = slow.dataset.slow; say(slow.dataset.slow); });
  if (main.dataset.left && !isOver()) after(main.dataset.left * SECOND + SECOND / 2, () => { shownAt = now(); poll(); });
  startLeaving();
  schedule(pause());
};

page.documentElement.classList.add("js");
wide.addEventListener("change", openOrder);
addEventListener("online", poll);
page.addEventListener("visibilitychange", () => { if (!page.hidden) poll(); });
addEventListener("pageshow", (event) => {
  if (event.persisted) { renew(); return; }
  [...page.forms].forEach(setFree);
});

start();
const kept = recall(KEPT);
if (kept) { forget(KEPT); putBack(JSON.parse(kept)); showPrice(); }
// Without a part of the page in its address the browser itself focuses what has gone wrong.
if (location.hash === "#c") (one("[data-focus]") || page.getElementById("c")).focus();
const news = one("[data-say]");
if (news) say(news.textContent);

// A link opens its session at once, but not again for who comes back from it.
const opening = one("[data-auto]");
if (opening && !recall("opened:" + home)) {
  remember("opened:" + home, "1");
  opening.requestSubmit();
}
})();
