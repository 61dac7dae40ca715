package scenarios

import (
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// module.sig_enforce without UEFI: the refusals are those of Secure Boot, but no key can be enrolled, and an
// invalid signature counts as one of a key that the kernel does not know. Test09 has the modules without
// signature.
func Test22Enforced(t *testing.T) {
	const demand = `the kernel loads signed modules only \(module\.sig_enforce\); `
	var rows []refusal
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		site := newKey("The site's modules")
		c.CommandLine = "module.sig_enforce=1"
		rows = []refusal{
			{forged: forged{name: "foreign", key: site}, errno: syscall.EKEYREJECTED, finding: `the modules are` + byTest + `, a key that the kernel does not know`,
				loading: `the kernel refused the module nvidia .*signed with a key that this kernel does not know`},
			{forged: forged{name: "payload", key: site, damage: payloadBit}, errno: syscall.EKEYREJECTED, finding: `the modules are` + byTest + `, a key that the kernel does not know`},
			{forged: forged{name: "broken", key: site, damage: brokenDER}, errno: syscall.EBADMSG, loading: `the kernel refused the module nvidia .*signature is damaged`},
		}
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, rows[0].forged, rows[1].forged, rows[2].forged)
	}}.start(t)
	for _, r := range rows {
		refused(t, g, r, demand)
	}
	fails(t, g, with("535", "foreign"), 13, 30*time.Second, `this machine was not started by UEFI, so that no other can be enrolled`)
}

// The validation is switched off in shim, as by mokutil --disable-validation: the firmware still reports that
// Secure Boot is on, and the kernel accepts modules without a signature. Preflight reports the state
// correctly.
func Test22ValidationOff(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, cached: []product{d535},
		edit: func(c *lab.Config) {
			c.Firmware = &lab.Firmware{Debian: true, ValidationOff: true}
		}}.start(t)
	predicts(t, g, light("535"), 0, `module-signing +ok +the kernel takes modules without a signature, although Secure Boot is on in the firmware \(mokutil --disable-validation`)
	servesAgain(t, g, light("535"), d535.driver)
}

// Setup Mode, and a key in db: the kernel does not require signatures, but a signature by a key that it knows
// has to be valid.
func Test22SetupMode(t *testing.T) {
	var row refusal
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		site := newKey("The site's modules")
		row = refusal{forged: forged{name: "payload", key: site, damage: payloadBit}, errno: syscall.EKEYREJECTED,
			loading: `the kernel refused the module nvidia .*signature does not fit its content`}
		c.Firmware = &lab.Firmware{Key: site, SetupMode: true}
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, row.forged, forged{name: "unsigned"}, forged{name: "foreign", key: newKey("A stranger's modules")})
	}}.start(t)
	const demand = `the kernel takes modules without a signature; `
	refused(t, g, row, demand)
	predicts(t, g, with("535", "foreign"), 0, `module-signing +ok +`+demand+`the modules are signed by "A stranger's modules"`)
	predicts(t, g, with("535", "unsigned"), 0, `module-signing +ok +`+demand+`the modules have no signature`)
	g.Sh("modprobe drm")
	assert.Equalf(t, 0, inserts(g, "foreign", "nvidia"), "signed by a stranger")
}
