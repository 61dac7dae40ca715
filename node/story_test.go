package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// tell plays a story, a line for each event:
//
//	leave 470 image, holder comes  an instance with modules of its image serves and is killed, and what others do (change)
//	run 535 1m busy=wait direct  a life begins; the next lines belong to it, up to its end
//	7s holder comes              what others do so long after its start
//	8s see a | !b                what its status shows then (statusText), and what it does not
//	unused 18s                   nobody can ask for the usage of GPUs then
//	on keep: fail                an event just before the operation's first time
//	end a | !b | +op | -op | log a   what has come of it (lifeText), its operations, a line of its log (regexp)
//
// A life ends with an error if and only if its end has that word.
func (w *world) tell(t *testing.T, story string, edit ...func(*Node)) {
	t.Helper()
	var log logtest.Log
	var l life
	var during []func(*Node)
	due := 0
	for line := range strings.SplitSeq(strings.TrimSpace(story), "\n") {
		line = strings.TrimSpace(line)
		first, rest, _ := strings.Cut(line, " ")
		after, timed := time.ParseDuration(first)
		switch {
		case first == "run":
			l, during, log = parseLife(rest), nil, logtest.Log{}
		case first == "on":
			op, what, _ := strings.Cut(rest, ": ")
			l.events = append(l.events, event{op: op, what: what})
		case timed == nil:
			due++
			during = append(during, func(n *Node) {
				w.at(after, func() {
					due--
					parts, see := strings.CutPrefix(rest, "see ")
					switch {
					case see:
						w.expect(t, line, parts, w.statusText(*w.saved))
					case rest == "kill":
						k := n.Kernel.(*instance)
						k.before = func(string) error { k.die(); return nil }
					default:
						w.change(t, rest)
					}
				})
			})
		case first == "unused": // nobody can ask for the usage after a while
			during = append(during, func(n *Node) {
				time.AfterFunc(require.Value(time.ParseDuration(rest))(t), func() {
					assert.ErrorIsf(t, assert.Err(n.AskUsage(t.Context())), status.ErrNotReady, "usage of no GPU")
				})
			})
		case first == "end":
			last := filepath.Join(w.dir, "termination")
			require.NoError(t, os.WriteFile(last, nil, 0o600))
			prepare := func(n *Node) { n.cfg.Termination, n.Log = last, log.Logger() }
			e := w.run(l, slices.Concat([]func(*Node){prepare}, edit, during)...)
			text := w.lifeText(t, e, last)
			if (e.err != nil) != (strings.Contains(rest, "error") && !strings.HasPrefix(rest, "log ")) || due > 0 {
				t.Errorf("%s: %d events are to come; %s", line, due, text)
			}
			for part := range strings.SplitSeq(rest, " | ") {
				op, did := strings.CutPrefix(part, "+")
				other, didNot := strings.CutPrefix(part, "-")
				said, says := strings.CutPrefix(part, "log ")
				order, inOrder := strings.CutPrefix(part, "in order ")
				switch {
				case did && !slices.Contains(e.ops, op) || didNot && slices.Contains(e.ops, other):
					t.Errorf("%s: %s: %v\n%s", line, part, e.ops, text)
				case says:
					text, once := strings.CutPrefix(said, "1× ")
					if once && strings.Count(log.String(), text) != 1 || !once && !regexp.MustCompile(said).MatchString(log.String()) {
						t.Errorf("%s: %s in\n%s", line, part, &log)
					}
				case inOrder:
					ops := strings.Split(order, ", ")
					for i, op := range ops[1:] {
						if slices.Index(e.ops, ops[i]) >= slices.Index(e.ops, op) {
							t.Errorf("%s: %s: %v", line, part, e.ops)
						}
					}
				case !did && !didNot:
					w.expect(t, line, part, text)
				}
			}
		case first == "kernel-log":
			w.change(t, line)
		default:
			for what := range strings.SplitSeq(line, ", ") {
				if dead, leaves := strings.CutPrefix(what, "leave "); leaves {
					short, words, _ := strings.Cut(dead, " ")
					w.leave(version(short), strings.Fields(words)...)
				} else {
					w.change(t, what)
				}
			}
		}
	}
}

// expect checks that a text has all parts, and none that begins with "!".
func (w *world) expect(t *testing.T, line, parts, text string) {
	t.Helper()
	for part := range strings.SplitSeq(parts, " | ") {
		want, not := strings.CutPrefix(part, "!")
		if strings.Contains(text, want) == not {
			t.Errorf("%s: %q in\n%s", line, part, text)
		}
	}
}

func version(short string) string { return map[string]string{"470": v470, "535": v535}[short] }

func parseLife(text string) life {
	fields := strings.Fields(text)
	l := life{version: version(fields[0])}
	l.set(fields[1:]...)
	return l
}

// set adds the words of a story to a life.
func (l *life) set(words ...string) {
	for _, f := range words {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "param":
			l.param = value
		case "uvm":
			l.uvmParam = value
		case "waits":
			l.waits = true
		case "direct":
			l.direct = true
		case status.FromImage, status.FromMounted:
			l.source = key
		case "build":
			l.image = value
		default:
			l.asks, _ = time.ParseDuration(f)
		}
	}
}

// change changes the world, as others do it or as it is said. The world is locked, or no instance runs.
func (w *world) change(t *testing.T, what string) {
	flags := map[string]*bool{"sick": &w.sick, "no daemon": &w.noDaemon, "unfit": &w.preflightBad, "ignoring parameters": &w.ignores, "fewer modules": &w.fewer, "direct": &w.direct, "slow disk": &w.slowDisk}
	first, rest, _ := strings.Cut(what, " ")
	flag, off := strings.CutPrefix(what, "not ")
	gpu := len(w.bus) - 1 // the last one
	w.bus = slices.Clone(w.bus)
	switch {
	case flags[flag] != nil:
		*flags[flag] = !off
	case slices.Contains(happenings, what):
		_ = w.meddle(what)
	case what == "users go":
		w.users = nil
	case what == "last user goes":
		w.users = w.users[:len(w.users)-1]
	case first == "lose":
		w.lose(strings.Fields(rest)...)
	case what == "well":
		w.calm()
	case what == "locked":
		w.locked = true
	case what == "faster":
		w.faster = "OTHER"
	case what == "user of nouveau":
		w.users = []kmod.Holder{{PID: 1, Command: "Xorg", Files: []string{"nouveau"}}}
	case what == "forgive record": // it names what is about to be loaded, also while the driver serves
		w.wrong = nil
	case what == "markers cannot be written", what == "markers can be written":
		folder := filepath.Join(w.dir, "nvidia/validations")
		require.NoError(t, os.RemoveAll(folder))
		if what == "markers cannot be written" {
			require.NoError(t, os.WriteFile(folder, nil, 0o600))
		}
	case first == "pin":
		w.pinned = rest
	case what == "no fabric":
		w.fabric = nil
	case what == "unlicensed":
		w.licence = &probe.Licence{}
	case first == "licensed":
		w.licence = &probe.Licence{Licensed: true, Until: rest}
	case first == "broken":
		w.broken[version(rest)] = true
	case first == "cached", first == "uncached":
		w.cache[version(rest)] = first == "cached"
	case first == "load": // a module that is none of the driver's
		w.modules[rest], w.leaks = kmod.Module{Name: rest}, append(w.leaks, rest)
	case first == "unload":
		delete(w.modules, rest)
	case first == "omit":
		w.omitted = rest
	case first == "refuse":
		w.refused = rest
	case first == "build":
		w.build = rest
	case first == "kernel-log":
		w.log = append(w.log, rest)
	case what == "GPU comes":
		w.bus = append(w.bus, t4At(second))
	case what == "GPU goes":
		w.bus = w.bus[:gpu]
	case first == "GPU":
		w.bus[gpu].Silent = rest == "silent"
		w.bus[gpu].Driver = map[string]string{"silent": "nvidia", "nvidia": "nvidia", "vfio-pci": "vfio-pci"}[rest] // else unbound
	case first == "GPUs":
		for i := range w.bus {
			w.bus[i].Driver = rest
		}
	default:
		t.Errorf("no such event: %s", what)
	}
}

// second is the GPU that comes and goes.
const second = "0000:06:00.0"

// gpusOf returns the GPUs of a status as text.
func gpusOf(st *status.Snapshot) string {
	var out []string
	for _, g := range st.GPUs {
		text := g.Address + " " + string(g.State)
		if g.Works {
			text += " works"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// statusText is all of a status, and of what the world has.
func (w *world) statusText(st status.Snapshot) string {
	var up status.Driver
	if st.Up != nil {
		up = *st.Up
	}
	var failure status.Failure
	if st.LastFailure != nil {
		failure = *st.LastFailure
	}
	return fmt.Sprintf("%+v\nup %+v\nfailure %+v\nGPUs %s\nfiles %v", st, up, failure, gpusOf(&st), w.nodes)
}

// lifeText is all that is known of a life that has ended.
func (w *world) lifeText(t *testing.T, e end, last string) string {
	var kinds strings.Builder
	for name, kind := range map[string]error{"ErrLeft": ErrLeft, "ErrConfig": config.ErrConfig, "ErrInUse": kmod.ErrInUse} {
		if errors.Is(e.err, kind) {
			kinds.WriteString(" " + name)
		}
	}
	message := require.Value(os.ReadFile(last))(t)
	var files error
	if up := e.status.Up; up != nil {
		files = modules.CheckFiles(up.Modules)
	}
	return fmt.Sprintf("%s %s, killed %v, after %s, error%s: %v\nmodules %v %s %v\n%d users, record: %s, files: %v\n%s\nlast words: %s",
		map[bool]string{true: "served", false: "unserved"}[e.served], w.outcome(), e.killed, e.took, kinds.String(), e.err,
		slices.Sorted(maps.Keys(w.modules)), w.modules["nvidia"].Version, w.params, len(w.users), w.untrue(e.status.Up), files, w.statusText(e.status), message)
}
