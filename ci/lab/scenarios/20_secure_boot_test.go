package scenarios

import (
	"crypto"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/uefi"
	"github.com/driver-container/driver-container/ci/testcert"
)

const (
	demanded = `Secure Boot is on and the kernel loads signed modules only; ` // the beginning of preflight's finding
	byTest   = ` signed by "The site's modules" \(key [0-9a-f]{40}, sha256\)`
)

// refusal is a set of modules that a kernel refuses.
type refusal struct {
	forged
	errno   syscall.Errno // the kernel's own error
	finding string        // preflight's finding
	// The message of a start that was told to skip preflight's check; "": not tried.
	loading  string
	prepares func(t *testing.T, g *lab.Guest)
}

func refusals(site, stranger *testcert.Pair) []refusal {
	const rejected, badMessage = syscall.EKEYREJECTED, syscall.EBADMSG
	return []refusal{
		{forged: forged{name: "unsigned"}, errno: rejected, finding: `the modules have no signature`},
		{forged: forged{name: "foreign", key: stranger}, errno: rejected,
			finding: `the modules are signed by "A stranger's modules" .* a key that the kernel does not know`,
			loading: `the kernel refused the module nvidia .*signed with a key that this kernel does not know`},
		{forged: forged{name: "payload", key: site, damage: payloadBit}, errno: rejected,
			finding: `nvidia is` + byTest + `, but the signature does not hold`,
			loading: `the kernel refused the module nvidia .*signature does not fit its content`},
		{forged: forged{name: "signature", key: site, module: "nvidia-uvm", damage: signatureBit}, errno: rejected,
			finding: `nvidia-uvm is` + byTest + `, but the signature does not hold`,
			// nvidia is loaded before, and is unloaded again.
			loading: `the kernel refused the module nvidia.uvm .*signature does not fit its content`},
		{forged: forged{name: "broken", key: site, damage: brokenDER}, errno: badMessage,
			finding: `nvidia has a broken signature, which kernels always refuse`,
			loading: `the kernel refused the module nvidia .*signature is damaged`},
		{forged: forged{name: "truncated", key: site, damage: truncatedDER}, errno: badMessage,
			finding: `nvidia has a broken signature, which kernels always refuse`},
		{forged: forged{name: "stripped", key: site, damage: stripped}, errno: rejected, finding: `nvidia has no signature`},
		{forged: forged{name: "sha512", key: site, hash: crypto.SHA512}, errno: rejected,
			finding: `the modules are signed by .* sha512\), and the kernel neither has sha512 nor can load it`,
			loading: `the kernel refused the module nvidia .*signed with a hash or cipher that this kernel does not have at hand`, prepares: withoutSHA512},
	}
}

// withoutSHA512 removes the module for the hash from the host.
func withoutSHA512(t *testing.T, g *lab.Guest) {
	t.Helper()
	g.Sh(`cd /lib/modules/$(uname -r) && gone=$(find . -name 'sha512*') && tar cf /tmp/sha512.tar $gone modules.dep modules.alias &&
rm $gone && sed -i /sha512/d modules.dep modules.alias`)
}

// withSHA512 restores it: the kernel loads the module by itself when it checks such a signature, and
// preflight expects that.
func withSHA512(t *testing.T, g *lab.Guest) {
	t.Helper()
	g.Sh("cd /lib/modules/$(uname -r) && tar xf /tmp/sha512.tar")
	predicts(t, g, with("535", "sha512"), 0, `module-signing +ok +`+demanded+`.* sha512\), which the kernel knows .*the kernel loads sha512 when it is asked`)
	if err := inserts(g, "sha512", "nvidia"); err != nil {
		t.Errorf("sha512 with its module: %v", err)
		return
	}
	cleanTaint(t, g)
	g.Sh("rmmod nvidia")
}

// Secure Boot with the site's own key in the firmware's db. For every defect of a signature, the kernel
// refuses the module, preflight has predicted it, the start ends with 13 and gives the reason, and no state
// is left. Modules that the site has signed load.
func Test20SecureBoot(t *testing.T) {
	var site, stranger *testcert.Pair
	var rows []refusal
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		site, stranger = uefi.NewKey("The site's modules"), uefi.NewKey("A stranger's modules")
		rows = refusals(site, stranger)
		c.Firmware = &lab.Firmware{Variables: []uefi.Variable{uefi.PK(site.Certificate), uefi.KEK(site.Certificate), uefi.DB(site.Certificate)}}
		sets := []forged{{name: "signed", key: site}}
		for _, r := range rows {
			sets = append(sets, r.forged)
		}
		begin := time.Now()
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, sets...)
		t.Logf("%d sets of modules made in %s", len(sets), time.Since(begin).Round(time.Millisecond))
	}}.start(t)
	g.Module("drm")
	for _, r := range rows {
		t.Logf("%s", r.name)
		refused(t, g, r, demanded)
	}
	withSHA512(t, g)
	t.Log("signed")
	predicts(t, g, with("535", "signed"), 0, `module-signing +ok +`+demanded+`the modules are`+byTest+`, which the kernel knows \(keyring \.platform\)`)
	loadsSigned(t, g, with("535", "signed"))
	t.Log("signed here")
	signsHere(t, g, site)
	t.Log("handed over by a toolkit container")
	signsHandedOver(t, g, site)
}

// refused requires that preflight, the kernel and a start refuse a set of modules.
func refused(t *testing.T, g *lab.Guest, r refusal, demand string) {
	t.Helper()
	if r.prepares != nil {
		r.prepares(t, g)
	}
	module := r.module
	if module == "" {
		module = "nvidia"
	}
	assert.ErrorIsf(t, inserts(g, r.name, module), r.errno, "%s: the kernel said", r.name)
	predicts(t, g, with("535", r.name), 11, `module-signing +FAIL +`+demand+r.finding)
	fails(t, g, with("535", r.name), 13, 30*time.Second, `module-signing: `+demand+r.finding)
	if r.loading != "" {
		fails(t, g, with("535", r.name, "DRIVER_SKIP_PREFLIGHT=module-signing"), 13, time.Minute, `warning: preflight: module-signing`, r.loading)
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
