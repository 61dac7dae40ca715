package solve

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// zypperSummary is the part of zypper's output that says what it would do.
type zypperSummary struct {
	Install   []zypperPackage `xml:"install-summary>to-install>solvable"`
	Upgrade   []zypperPackage `xml:"install-summary>to-upgrade>solvable"`
	Change    []zypperPackage `xml:"install-summary>to-upgrade-change-arch>solvable"`
	Remove    []zypperPackage `xml:"install-summary>to-remove>solvable"`
	Downgrade []zypperPackage `xml:"install-summary>to-downgrade>solvable"`
}

type zypperPackage struct {
	Name    string `xml:"name,attr"`
	Edition string `xml:"edition,attr"`
	Arch    string `xml:"arch,attr"`
}

func (p zypperPackage) String() string { return fmt.Sprintf("%s %s %s", p.Name, p.Edition, p.Arch) }

// prepareZypper configures the repositories of a system.
func prepareZypper(t testing.TB, w *world, home string) {
	t.Helper()
	dir := filepath.Join(w.reference.Root, "etc/zypp/repos.d")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, r := range w.reference.Repos {
		text := fmt.Sprintf("[%s]\nname=%[1]s\nenabled=1\nautorefresh=0\nbaseurl=file://%s\ntype=rpm-md\ngpgcheck=0\npriority=%d\n", r.ID, r.URL, r.Priority)
		require.NoError(t, os.WriteFile(filepath.Join(dir, r.ID+".repo"), []byte(text), 0o644))
	}
	if out, err := zypper(t, w, home, "refresh"); err != nil {
		t.Fatalf("zypper refresh: %v\n%s", err, out)
	}
}

func zypper(t testing.TB, w *world, home string, args ...string) ([]byte, error) {
	fixed := []string{"--non-interactive", "--xmlout", "--no-refresh", "--no-gpg-checks", "--root", w.reference.Root}
	c := exec.CommandContext(t.Context(), "zypper", append(fixed, args...)...)
	c.Env = append(os.Environ(), "HOME="+home, "LC_ALL=C")
	return c.Output()
}

// askZypper lets zypper resolve the wants.
func askZypper(t testing.TB, w *world, home string, want []string) referenceAnswer {
	t.Helper()
	out, err := zypper(t, w, home, append([]string{"install", "--dry-run", "--no-recommends"}, want...)...)
	if err != nil {
		return referenceAnswer{Error: err.Error()}
	}
	var s zypperSummary
	if err := xml.Unmarshal(out, &s); err != nil {
		t.Fatalf("zypper: %v\n%s", err, out)
	}
	var a referenceAnswer
	for _, p := range slices.Concat(s.Install, s.Upgrade, s.Change, s.Downgrade) {
		a.Add = append(a.Add, p.String())
	}
	for _, p := range s.Remove {
		a.Remove = append(a.Remove, p.String())
	}
	slices.Sort(a.Add)
	return a
}

// compareZypper compares with zypper. If this package refuses a request for which zypper takes an older
// version, that counts as agreement: dnf with best=True refuses as well.
func compareZypper(t *testing.T, worlds []*world) {
	t.Helper()
	home := referenceHome(t)
	var c tally
	for i, w := range worlds {
		prepareZypper(t, w, home)
		for _, want := range w.reference.Wants[:30] {
			theirs, mine := askZypper(t, w, home, want), ours(t, w, want)
			if mine.Error == "" || theirs.Error != "" || !takesOlder(w, want, theirs) {
				c.add(t, i, want, "zypper", theirs, mine)
			}
		}
	}
	c.report(t, "zypper", 5)
}

// takesOlder reports whether an answer does not contain the newest version of something that was requested.
func takesOlder(w *world, want []string, a referenceAnswer) bool {
	x := indexOf(w.index)
	return slices.ContainsFunc(want, func(name string) bool {
		name, _, _ = strings.Cut(name, " ")
		all := x.Versions(name)
		return len(all) == 0 || !slices.Contains(a.Add, fmt.Sprintf("%s %s %s", all[0].Name, all[0].Version, all[0].Arch))
	})
}
