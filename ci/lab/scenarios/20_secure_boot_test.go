package scenarios

import (
	"cmp"
	"crypto"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

const (
	demanded = `Secure Boot is on and the kernel loads signed modules only; ` // the beginning of preflight's finding
	byTest   = ` signed by "The site's modules" \(key [0-9a-f]{40}\)`
)

// refusal is a set of modules that a kernel refuses.
type refusal struct {
	forged
	errno   syscall.Errno // the kernel's own error
	finding string        // preflight's finding; "": only the kernel finds it
	loading string        // the message of a start that preflight does not stop, or was told not to stop; "": not tried
}

func refusals(site, stranger *testcert.Pair) []refusal {
	const rejected, badMessage = syscall.EKEYREJECTED, syscall.EBADMSG
	return []refusal{
		{forged: forged{name: "unsigned"}, errno: rejected, finding: `the modules have no signature`},
		{forged: forged{name: "foreign", key: stranger}, errno: rejected,
			finding: `the modules are signed by "A stranger's modules" .* a key that the kernel does not know`,
			loading: `the kernel refused the module nvidia .*signed with a key that this kernel does not know`},
		{forged: forged{name: "payload", key: site, damage: payloadBit}, errno: rejected,
			loading: `the kernel refused the module nvidia .*signature does not fit its content`},
		{forged: forged{name: "signature", key: site, module: "nvidia-uvm", damage: signatureBit}, errno: rejected,
			// nvidia is loaded before, and is unloaded again.
			loading: `the kernel refused the module nvidia.uvm .*signature does not fit its content`},
		{forged: forged{name: "broken", key: site, damage: brokenDER}, errno: badMessage,
			loading: `the kernel refused the module nvidia .*signature is damaged`},
		{forged: forged{name: "stripped", key: site, damage: stripped}, errno: rejected, finding: `nvidia has no signature`},
		{forged: forged{name: "sha512", key: site, hash: crypto.SHA512}, errno: rejected,
			loading: `the kernel refused the module nvidia .*signed with a hash or cipher that this kernel does not have at hand`},
	}
}

// Secure Boot with the site's own key in the firmware's db. For every defect of a signature, the kernel
// refuses the module, preflight has predicted it, the start ends with 13 and gives the reason, and no state
// is left. Modules that the site has signed load: those of a thin image, and those of a cache.
func Test20SecureBoot(t *testing.T) {
	var site, stranger *testcert.Pair
	var rows []refusal
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		site, stranger = newKey("The site's modules"), newKey("A stranger's modules")
		rows = refusals(site, stranger)
		c.Firmware = &lab.Firmware{Key: site}
		c.Images["thin"] = signedThin(t, c.Kernel, site)
		var sets []forged
		for _, r := range rows {
			sets = append(sets, r.forged)
		}
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, sets...)
	}}.start(t)
	g.Sh("modprobe drm")
	// The kernel would load the module for this hash by itself.
	g.Sh(`cd /lib/modules/$(uname -r) && rm $(find . -name 'sha512*') && sed -i /sha512/d modules.dep modules.alias`)
	for _, r := range rows {
		refused(t, g, r, demanded)
	}
	predicts(t, g, driver("thin"), 0, `module-signing +ok +`+demanded+`the modules are`+byTest+`, which the kernel knows`)
	loadsSigned(t, g, driver("thin"))
	signsHere(t, g, site)
}

// signedThin returns the thin image for a kernel, made with further flags, whose modules driver-build has signed.
func signedThin(t *testing.T, kernel *lab.HostKernel, by *testcert.Pair, flags ...string) guest.Image {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	dir := testfile.Tree(t, t.TempDir(), map[string]string{"key.pem": by.KeyPEM(), "cert.pem": by.CertPEM()})
	name := "signed" + strings.Join(flags, "")
	return lab.ImageDisk(t, thinLayout(t, name, []*lab.HostKernel{kernel}, append(flags, "--module-key", dir+"/key.pem", "--module-cert", dir+"/cert.pem")...))
}

// refused requires that preflight, the kernel and a start refuse a set of modules.
func refused(t *testing.T, g *lab.Guest, r refusal, demand string) {
	t.Helper()
	assert.Equalf(t, r.errno, inserts(g, r.name, cmp.Or(r.module, "nvidia")), "%s: the kernel said", r.name)
	if r.finding != "" {
		predicts(t, g, with("535", r.name), 11, `module-signing +FAIL +`+demand+r.finding)
		fails(t, g, with("535", r.name), 13, 30*time.Second, `module-signing: `+demand+r.finding)
	}
	if r.loading != "" {
		fails(t, g, with("535", r.name, "DRIVER_SKIP_PREFLIGHT=module-signing"), 13, time.Minute, r.loading)
	}
	cleanTaint(t, g)
}

// loadsSigned starts a driver whose modules the kernel accepts, and stops it.
func loadsSigned(t *testing.T, g *lab.Guest, c lab.Container) string {
	t.Helper()
	p := ready(t, g, c)
	serving(t, g, d535.driver)
	cleanTaint(t, g)
	out := stops(t, p, 0)
	p.Kill()
	return out
}
