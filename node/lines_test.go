package node

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/cli"
)

// The lines for which the tests in virtual machines wait.
func TestLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live func(w *world, log func(*Node))
		want []string
	}{
		"start and stop": {func(w *world, log func(*Node)) { w.run(life{version: v535}, log) }, []string{
			logtest.Ready + `535\.261\.03 flavour=proprietary kernel=6\.1\.0-1-amd64\n`, logtest.Up + `\S+\n`, logtest.Unloaded + `\n`,
			logtest.PhaseFinished + `lock duration=\S+\n`, logtest.PhaseFinished + `modules duration=\S+\n`,
		}},
		"adopted": {func(w *world, log func(*Node)) {
			w.leave(v535)
			w.run(life{version: v535}, log)
		}, []string{logtest.Adopting + `535\.261\.03\n`, `predecessor found left="driver 535\.261\.03 \(proprietary\) up" state=serving\n`}},
		"replaced, and in use": {func(w *world, log func(*Node)) {
			w.leave(v470)
			w.meddle("holder comes")
			w.run(life{version: v535, asks: time.Minute}, log, func(*Node) { w.at(20*time.Second, func() { w.users = nil }) })
		}, []string{logtest.ToBeReplaced + `\S`, logtest.WaitsToReplace + `470\.256\.02: .*in use by pid 4711`, logtest.Unloading + `470\.256\.02\n`}},
		"left in place": {func(w *world, log func(*Node)) {
			w.run(life{version: v535}, log, func(*Node) { w.at(5*time.Second, func() { w.meddle("holder comes") }) })
		}, []string{logtest.LeftInPlace + `Could not unload NVIDIA driver kernel modules, driver is in use by pid 4711`}},
		"a node that is not fit": {func(w *world, log func(*Node)) {
			w.preflightBad = true
			w.run(life{version: v535, waits: true}, log)
		}, []string{`error: ` + logtest.Unfit + `this node cannot run the driver as it is:\nheaders: no headers`}},
		"meddlers": {func(w *world, log func(*Node)) {
			w.run(life{version: v535, asks: time.Minute}, log, func(*Node) {
				w.at(7*time.Second, func() { w.meddle("lock file removed") })
				w.at(17*time.Second, func() { w.meddle("daemon dies") })
			})
		}, []string{logtest.LockRecreated, `error: ` + logtest.NotReady + `nvidia-persistenced is not running: `}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var log logtest.Log
				c.live(w, func(n *Node) { n.log = log.Logger() })
				for _, want := range c.want {
					if !regexp.MustCompile(want).MatchString(log.String()) {
						t.Errorf("no line like %q in\n%s", want, &log)
					}
				}
			})
		})
	}
}

// JSON has the phase of each line of a start.
func TestLinesAsJSON(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var lines bytes.Buffer
		w.leave(v470)
		w.run(life{version: v535}, func(n *Node) { n.log = cli.Log(&lines, "json") })
		assert.Contains(t, lines.String(), `"level":"INFO","msg":"unloading the driver","phase":"replace","driver":"470.256.02"}`)
		assert.Contains(t, lines.String(), `"level":"INFO","msg":"driver unloaded, root unmounted"}`)
	})
}
