package matrix

import (
	"slices"
	"strings"
	"testing"

	drivercontainer "github.com/driver-container/driver-container"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// TestInterfaces: on a kernel that has an interface in its new form, no open modules are offered that call it
// in the old one, whatever the driver. The kernels are the first of their series with four arguments, and the
// last ones with three (issues 1272 and 467 of the sources in matrix.yaml, and Debian's headers).
func TestInterfaces(t *testing.T) {
	t.Parallel()
	m := require.Value(Parse("matrix.yaml", drivercontainer.Matrix))(t)
	calls := []string{"535.261.03", "535.288.01", "535.309.01", "550.163.01", "570.211.01"}
	for _, d := range m.Drivers {
		for kernel, four := range map[string]bool{
			"5.15.211": false, "5.15.212": true, "6.1.177": false, "6.1.178": true, "6.6.144": false, "6.6.145": true,
			"6.12.96": false, "6.12.100": true, "6.18.39": false, "6.18.40": true, "6.19.0": true, "5.10.262": false,
		} {
			for _, flavour := range d.Flavours {
				broken := d.Unpatched.CheckFlavour(driverinfo.Kernel{Release: kernel, Version: kernel}, flavour)
				want := four && flavour == Open && slices.Contains(calls, d.Version)
				assert.Equalf(t, want, broken != nil && broken.Certain && strings.Contains(broken.Broken.Reason, "four arguments"), "%s %s on %s", d.Version, flavour, kernel)
				if broken = d.Kernel.CheckFlavour(driverinfo.Kernel{Release: kernel, Version: kernel}, flavour); len(d.Patches) > 0 && d.Kernel.Check(kernel) == nil {
					assert.Equalf(t, true, broken == nil, "%s %s on %s, patched: %v", d.Version, flavour, kernel, broken)
				}
			}
		}
	}
}

func TestInterfaceMistakes(t *testing.T) {
	t.Parallel()
	one := "  - name: f\n    kernels: [{from: 6.1.178, below: 6.2}]\n    drivers: [{from: 535}]\n    reason: four arguments\n    source: s\n"
	for name, c := range map[string]struct{ text, want string }{
		"twice":            {one + one, "interface \"f\" appears twice"},
		"kernels crossed":  {strings.Replace(one, "6.2", "6.1.9", 1), "a range of kernels begins at 6.1.178, which is not below 6.1.9"},
		"drivers crossed":  {strings.Replace(one, "535}", "535.10, below: 535.9}", 1), "a range of drivers begins at 535.10"},
		"no driver":        {strings.Replace(one, "535}", "R535}", 1), "is no driver version and no branch"},
		"without source":   {strings.Replace(one, "    source: s\n", "", 1), "an interface has no key source"},
		"the driver's own": {one, "driver 535.261.03 says in kernel.broken what interface \"f\" says of kernels from 6.1.178 on, below 6.2: remove one"},
	} {
		text := patchMatrix(entry("p/open.patch", openDiff, range61, onlyOpen)) + "interfaces:\n" + c.text
		_, err := ParseWithFiles("m.yaml", []byte(text), Files{Patch: readPatches})
		assert.ErrorContainsf(t, err, c.want, "%s", name)
	}
	for _, mends := range []string{"g", "f\n        kernels: [{from: 6.1.178}]"} {
		text := patchMatrix(strings.Replace(entry("p/open.patch", openDiff, "K", ""), "kernels: K", "mends: "+mends, 1)) + "interfaces:\n" + one
		_, err := ParseWithFiles("m.yaml", []byte(text), Files{Patch: readPatches})
		assert.ErrorContains(t, err, map[bool]string{true: `patch open mends "g", which is not in interfaces`, false: "either kernels, or mends"}[mends == "g"])
	}
}
