package node

import (
	"bytes"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/cli"
)

// The lines for which the tests in virtual machines wait.
func TestLines(t *testing.T) {
	stories(t, map[string]string{
		"start and stop": `
			run 535
			end log ` + logtest.Ready + `535\.261\.03 flavour=proprietary kernel=6\.1\.0-1-amd64\n | log ` + logtest.Up + `\S+\n | log ` + logtest.Unloaded + `\n | log ` +
			logtest.PhaseFinished + `lock duration=\S+\n | log ` + logtest.PhaseFinished + `modules duration=\S+\n`,
		"adopted": `
			leave 535
			run 535
			end log ` + logtest.Adopting + `535\.261\.03\n | log predecessor found left="driver 535\.261\.03 \(proprietary\) up" state=serving\n`,
		"replaced, and in use": `
			leave 470, holder comes
			run 535 1m
				20s users go
			end log ` + logtest.ToBeReplaced + `\S | log ` + logtest.WaitsToReplace + `470\.256\.02: .*in use by pid 4711 | log ` + logtest.Unloading + `470\.256\.02\n`,
		"left in place": `
			run 535
				5s holder comes
			end log ` + logtest.LeftInPlace + `Could not unload NVIDIA driver kernel modules, driver is in use by pid 4711`,
		"a node that is not fit": `
			unfit
			run 535 waits
			end log error: ` + logtest.Unfit + `this node cannot run the driver as it is:\nheaders: no headers`,
		"meddlers": `
			run 535 1m
				7s lock file removed
				17s daemon dies
			end log ` + logtest.LockRecreated + ` | log error: ` + logtest.NotReady + `nvidia-persistenced is not running: `,
	})
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
