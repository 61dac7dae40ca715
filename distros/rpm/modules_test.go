package rpm

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros"
)

// moduleDocument returns the YAML document of a build of a stream, in the form that RHEL uses.
func moduleDocument(stream, version, context string, requires string, artifacts ...string) string {
	name, stream, _ := strings.Cut(stream, ":")
	var b strings.Builder
	fmt.Fprintf(&b, "---\ndocument: modulemd\nversion: 2\ndata:\n  name: %s\n  stream: %s\n  version: %s\n  context: %s\n  arch: x86_64\n  summary: About it\n"+
		"  description: >-\n    Words.\n    ---\n  license:\n    module: [MIT]\n  dependencies:\n  - buildrequires:\n      platform: [el8]\n    requires:\n      %s\n"+
		"  profiles:\n    common:\n      rpms:\n      - x\n  artifacts:\n    rpms:\n", name, stream, version, context, requires)
	for _, a := range artifacts {
		fmt.Fprintf(&b, "    - %s\n", a)
	}
	return b.String() + "...\n"
}

func moduleDefault(name, stream string) string {
	return fmt.Sprintf("---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: %s\n  stream: %s\n  profiles:\n    %s: [common]\n...\n", name, stream, stream)
}

func moduleRepository(t *testing.T) *repository {
	t.Helper()
	r := newRepository(t,
		repotest.RPM{Name: "nodejs", EVR: "1:10.1-1.module_el8"}, repotest.RPM{Name: "nodejs", EVR: "1:18.1-1.module_el8"}, repotest.RPM{Name: "nodejs", EVR: "1:18.2-1.module_el8"},
		repotest.RPM{Name: "nodejs", EVR: "20.0-1"}, repotest.RPM{Name: "npm", EVR: "1-1.module_el8"}, repotest.RPM{Name: "nodejs-compat", Provides: []string{"nodejs"}},
		repotest.RPM{Name: "perl", EVR: "5.26-1"}, repotest.RPM{Name: "perl", EVR: "5.30-1.module"}, repotest.RPM{Name: "perl-DBI", EVR: "1-1.module"},
		repotest.RPM{Name: "virt", EVR: "6-1.module"}, repotest.RPM{Name: "plain"},
	)
	r.Modules = moduleDocument("nodejs:10", "1", "c1", "platform: [el8]", "nodejs-1:10.1-1.module_el8.x86_64", "nodejs-1:10.1-1.module_el8.src", "npm-0:1-1.module_el8.x86_64") +
		moduleDocument("nodejs:18", "1", "c1", "platform: [el8]", "nodejs-1:18.1-1.module_el8.x86_64") +
		moduleDocument("nodejs:18", "2", "c1", "platform: [el8]", "nodejs-1:18.2-1.module_el8.x86_64") +
		moduleDocument("nodejs:18", "3", "c9", "platform: [el9]", "nodejs-1:18.3-1.module_el9.x86_64") +
		moduleDocument(`perl:"5.30"`, "1", "c", "platform: [el8]", "perl-0:5.30-1.module.x86_64") +
		moduleDocument("perl-DBI:1", "1", "c", `{perl: ["5.30"], platform: []}`, "perl-DBI-0:1-1.module.x86_64") +
		moduleDocument("virt:rhel", "1", "c", "platform: [el8]", "virt-0:6-1.module.x86_64") +
		"---\ndocument: modulemd-obsoletes\nversion: 1\ndata: {module: nodejs, stream: \"10\"}\n" + moduleDefault("nodejs", `"10"`) + moduleDefault("virt", "rhel")
	return r
}

func TestModules(t *testing.T) {
	t.Parallel()
	r := moduleRepository(t)
	r.publish(t, testKeys().good)
	const system = "PLATFORM_ID=\"platform:el8\"\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
		note  string
	}{
		{"defaults", nil, "nodejs 1:10.1-1.module_el8, npm 1-1.module_el8, perl 5.26-1, plain 1-1, virt 6-1.module", ""},
		{"enabled", map[string]string{"etc/dnf/modules.d/nodejs.module": "[nodejs]\nname=nodejs\nstream=18\nprofiles=\nstate=enabled\n"},
			"nodejs 1:18.2-1.module_el8, perl 5.26-1, plain 1-1, virt 6-1.module", ""},
		{"disabled", map[string]string{"etc/dnf/modules.d/nodejs.module": "[nodejs]\nstate=disabled\n", "etc/dnf/modules.d/virt.module": "[virt]\nstream=\nstate=disabled\n"},
			"nodejs 20.0-1, nodejs-compat 1-1, perl 5.26-1, plain 1-1", ""},
		{"brings another", map[string]string{"etc/dnf/modules.d/perl-DBI.module": "[perl-DBI]\nstream=1\nstate=enabled\n"},
			"nodejs 1:10.1-1.module_el8, npm 1-1.module_el8, perl 5.30-1.module, perl-DBI 1-1.module, plain 1-1, virt 6-1.module", ""},
		{"site's default", map[string]string{"etc/dnf/modules.defaults.d/nodejs.yaml": moduleDefault("nodejs", `"18"`)},
			"nodejs 1:18.2-1.module_el8, perl 5.26-1, plain 1-1, virt 6-1.module", ""},
		{"no such stream", map[string]string{"etc/dnf/modules.d/nodejs.module": "[nodejs]\nstream=99\nstate=enabled\n"},
			"nodejs 20.0-1, nodejs-compat 1-1, perl 5.26-1, plain 1-1, virt 6-1.module", "nodejs:99"},
		{"another platform", map[string]string{"etc/os-release": "PLATFORM_ID=platform:el9\n", "etc/dnf/modules.d/nodejs.module": "[nodejs]\nstream=18\nstate=enabled\n"},
			"perl 5.26-1, plain 1-1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"etc/os-release": system}
			maps.Copy(files, c.files)
			o := r.options(t)
			o.Root = testfile.FS(files)
			x := require.Value(openIndex(t.Context(), o))(t)
			var got []string
			for _, p := range x.packages {
				if p.Hidden == "" {
					got = append(got, p.String())
				}
			}
			assert.Equalf(t, c.want, strings.Join(got, ", "), "there are")
			if notes := strings.Join(x.Notes(), "\n"); c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
				t.Errorf("Notes = %q; want %q", notes, c.note)
			}
			for _, p := range x.Providing("nodejs") {
				if p.Hidden != "" && (!strings.Contains(p.Hidden, "module") || !strings.Contains(p.Hidden, "nodejs")) {
					t.Errorf("%s is hidden because %q", p, p.Hidden)
				}
			}
		})
	}
	o := r.options(t)
	o.Sources[0].ModuleHotfixes = true
	if x, err := openIndex(t.Context(), o); err != nil || len(x.Versions("nodejs")) != 4 {
		t.Errorf("Open(module_hotfixes) = %v, %v", x, err)
	}
}

func TestModuleMistakes(t *testing.T) {
	t.Parallel()
	bomb := "---\ndocument: modulemd\nversion: 2\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\ndata: {name: x, stream: y, artifacts: {rpms: [*c, *c]}}\n"
	for name, text := range map[string]string{
		"bomb": bomb, "not YAML": "---\ndocument: modulemd\n\t- {", "deep": "---\ndocument: modulemd\ndata: " + strings.Repeat("[", 100), "other shape": "---\ndocument: modulemd\nversion: 2\ndata: [1, 2]\n",
		"long": "---\nmodulemd: " + strings.Repeat("x", 8<<20), "version": "---\ndocument: modulemd\nversion: 2\ndata: {name: a, stream: b, version: -1}\n",
	} {
		r := newRepository(t, basics()...)
		r.Modules = text
		r.publish(t, testKeys().good)
		assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), r.options(t))), distros.ErrIndex, "%s: Open", name)
	}
	for _, text := range []string{"", "\n", "---\n", "# nothing\n", "---\ndocument: modulemd\nversion: 1\ndata: {name: 3}\n", "---\nhello: world\n"} {
		if docs, err := ParseModules(strings.NewReader(text)); err != nil || len(docs) != 0 {
			t.Errorf("ParseModules(%q) = %v, %v", text, docs, err)
		}
	}
}
