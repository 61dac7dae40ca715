package modules

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		step := Progress(log.Logger())
		for done := range 25 {
			time.Sleep(time.Second)
			step(done, 800, "CC [M]  nvidia/nv.o")
		}
		line := regexp.MustCompile(logtest.Progress + `\d0s step="CC \[M\]  nvidia/nv\.o"\n`)
		assert.Equalf(t, 2, len(line.FindAllString(log.String(), -1)), "lines: %s", &log)
	})
}

func TestSources(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "/usr/src/nvidia-535.261.03/kernel", Sources("535.261.03", driverinfo.Proprietary))
	assert.Equal(t, "/usr/src/nvidia-535.261.03/kernel-open", Sources("535.261.03", driverinfo.Open))
}
