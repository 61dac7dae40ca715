package repoconf

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// TestReadSources reads files as the systems ship them, with other hosts.
func TestReadSources(t *testing.T) {
	t.Parallel()
	key := []string{"file:///etc/pki/rpm-gpg/KEY"}
	for _, c := range []struct {
		name  string
		files map[string]string
		vars  Vars
		want  []Source
	}{
		{"centos 7", map[string]string{
			"etc/yum.conf": "[main]\ncachedir=/var/cache/yum/$basearch/$releasever\ngpgcheck=1\nplugins=1\ndistroverpkg=centos-release\n\n#  This is the default\n# metadata_expire=90m\n",
			"etc/yum.repos.d/CentOS-Base.repo": "# CentOS-Base.repo\n#\n\n[base]\nname=CentOS-$releasever - Base\nmirrorlist=http://list.example.com/?release=$releasever&arch=$basearch&repo=os&infra=$infra\n" +
				"#baseurl=http://mirror.example.com/centos/$releasever/os/$basearch/\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n\n#released updates \n[updates]\nname=x\n" +
				"baseurl=http://vault.example.com/7.9.2009/updates/$basearch/\n        http://two.example.com/updates\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n[centosplus]\nname=y\nbaseurl=http://x/\nenabled=0\n",
			"etc/yum/vars/infra": "container\n",
		}, Vars{"releasever": "7", "basearch": "x86_64", "infra": "container"}, []Source{
			{
				ID: "base", Name: "CentOS-7 - Base", MirrorList: "http://list.example.com/?release=7&arch=x86_64&repo=os&infra=container",
				Unused: "http://mirror.example.com/centos/7/os/x86_64", GPGCheck: true, GPGKeys: key,
			},
			{ID: "updates", Name: "x", BaseURLs: []string{"http://vault.example.com/7.9.2009/updates/x86_64", "http://two.example.com/updates"}, GPGCheck: true, GPGKeys: key},
		}},
		{"rocky 9", map[string]string{
			"etc/yum.conf":     "[main]\ngpgcheck=0\n",
			"etc/dnf/dnf.conf": "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\nexclude=kernel-rt* nouveau\n",
			"etc/yum.repos.d/rocky.repo": "[baseos]\nname=Rocky Linux $releasever - BaseOS\nmirrorlist=https://mirrors.example.com/mirrorlist?arch=$basearch&repo=BaseOS-$releasever$rltype\n" +
				"#baseurl=http://dl.example.com/$contentdir/$releasever/BaseOS/$basearch/os/\ngpgcheck=1\nenabled=1\ncountme=1\nmetadata_expire=6h\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n\n" +
				"[baseos-debug]\nname=d\nbaseurl=http://x\nenabled=0\n\n[site]\nname : Site\nbaseurl : https://user:s3cret@site.example.com/${releasever_major}/${releasever_minor:-0}/${nothing:-n}${releasever:+set}/\n" +
				"priority=10\ncost=5\nmodule_hotfixes=true\nskip_if_unavailable=1\nrepo_gpgcheck=1\nexcludepkgs=a, b*\nincludepkgs=c\nproxy=http://proxy.example.com:3128\nproxy_username=me\nproxy_password=p w\nsslverify=0\nsslcacert=/etc/ca.pem\n",
		}, Vars{"releasever": "9.4", "basearch": "aarch64", "rltype": "", "contentdir": "pub/rocky"}, []Source{
			{
				ID: "baseos", Name: "Rocky Linux 9.4 - BaseOS", MirrorList: "https://mirrors.example.com/mirrorlist?arch=aarch64&repo=BaseOS-9.4",
				Unused: "http://dl.example.com/pub/rocky/9.4/BaseOS/aarch64/os", GPGCheck: true, GPGKeys: key, Exclude: []string{"kernel-rt*", "nouveau"},
			},
			{
				ID: "site", Name: "Site", BaseURLs: []string{"https://site.example.com/9/4/nset"}, Username: "user", Password: "s3cret", GPGCheck: true, RepoGPGCheck: true,
				Priority: 10, Cost: 5, ModuleHotfixes: true, SkipUnavailable: true, Exclude: []string{"a", "b*", "kernel-rt*", "nouveau"}, Include: []string{"c"},
				Proxy: "http://me:p%20w@proxy.example.com:3128", SSL: SSL{CA: "/etc/ca.pem", NoVerify: true},
			},
		}},
		{"amazon 2", map[string]string{
			"etc/yum.conf": "[main]\ngpgcheck=1\n",
			"etc/yum.repos.d/amzn2-core.repo": "[amzn2-core]\nname=Amazon Linux 2 core repository\nmirrorlist=$awsproto://$amazonlinux.$awsregion.$awsdomain/$releasever/$product/$target/x86_64/mirror.list\n" +
				"priority=10\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\nenabled=1\nmetadata_expire=300\nmirrorlist_expire=300\nreport_instanceid=yes\n",
		}, Vars{"releasever": "2", "awsproto": "https", "amazonlinux": "amazonlinux-2-repos", "awsregion": "eu-west-1", "awsdomain": "example.com", "product": "core", "target": "latest"}, []Source{
			{ID: "amzn2-core", Name: "Amazon Linux 2 core repository", MirrorList: "https://amazonlinux-2-repos.eu-west-1.example.com/2/core/latest/x86_64/mirror.list", Priority: 10, GPGCheck: true, GPGKeys: key},
		}},
		{"fedora", map[string]string{
			"etc/dnf/dnf.conf": "# see `man dnf.conf`\n[main]\n",
			"etc/yum.repos.d/fedora.repo": "[fedora]\nname=Fedora $releasever - $basearch\n#baseurl=http://download.example/pub/fedora/linux/releases/$releasever/Everything/$basearch/os/\n" +
				"metalink=https://mirrors.example.org/metalink?repo=fedora-$releasever&arch=$basearch\nenabled=1\ncountme=1\nmetadata_expire=7d\nrepo_gpgcheck=0\ntype=rpm\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\nskip_if_unavailable=False\n",
		}, Vars{"releasever": "41", "basearch": "x86_64"}, []Source{{
			ID: "fedora", Name: "Fedora 41 - x86_64", Metalink: "https://mirrors.example.org/metalink?repo=fedora-41&arch=x86_64",
			Unused: "http://download.example/pub/fedora/linux/releases/41/Everything/x86_64/os", GPGCheck: true, GPGKeys: key,
		}}},
		{"leap", map[string]string{
			"etc/zypp/zypp.conf":             "[main]\n## a comment\n# gpgcheck = on\nsolver.onlyRequires = true\n",
			"etc/zypp/repos.d/repo-oss.repo": "[repo-oss]\nname=Main Repository\nenabled=1\nautorefresh=1\nbaseurl=http://download.example.org/distribution/leap/$releasever/repo/oss/\npath=/\ntype=rpm-md\nkeeppackages=0\n",
			"etc/zypp/repos.d/other.repo":    "[other]\nbaseurl=dir:///srv/repo\npath=/sub\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=0\n[unsafe]\nbaseurl=http://x/y\ngpgcheck=0\n[cd]\nbaseurl=cd:///?devices=/dev/sr0\n",
		}, Vars{"releasever": "15.6"}, []Source{
			{ID: "other", BaseURLs: []string{"file:///srv/repo/sub"}, GPGCheck: true},
			{ID: "unsafe", BaseURLs: []string{"http://x/y"}},
			{ID: "repo-oss", Name: "Main Repository", BaseURLs: []string{"http://download.example.org/distribution/leap/15.6/repo/oss"}, RepoGPGCheck: true},
		}},
		{"sles", map[string]string{
			"etc/zypp/repos.d/SLES.repo":                "[SLES:Pool]\nname=SLES Pool\nenabled=1\nbaseurl=https://updates.example.com/SUSE/Products/SLES/15-SP6/x86_64/product/?to_k-en\n[SLES:Updates]\nenabled=1\nbaseurl=https://updates.example.com/Updates?credentials=SCC&a=b\n",
			"etc/zypp/credentials.d/SCC":                "username=SCC_1\npassword = hidden\n",
			"etc/zypp/services.d/container-suseconnect": "ignored",
		}, nil, []Source{
			{ID: "SLES:Pool", Name: "SLES Pool", BaseURLs: []string{"https://updates.example.com/SUSE/Products/SLES/15-SP6/x86_64/product"}, Query: "to_k-en", RepoGPGCheck: true},
			{ID: "SLES:Updates", BaseURLs: []string{"https://updates.example.com/Updates"}, Query: "a=b", Username: "SCC_1", Password: "hidden", RepoGPGCheck: true},
		}},
		{"rhel", map[string]string{
			"etc/yum.repos.d/redhat.repo": "[old]\nbaseurl=https://x/\n",
			"etc/yum.repos.d/ubi.repo":    "[ubi-9-baseos-rpms]\nname=UBI\nbaseurl = https://cdn-ubi.example.com/content/public/ubi/dist/ubi9/9/$basearch/baseos/os\nenabled = 1\ngpgkey = file:///etc/pki/rpm-gpg/KEY\ngpgcheck = 1\n",
			"run/secrets/redhat.repo": "#\n# Certificate-Based Repositories\n#\n[rhel-9-for-x86_64-baseos-eus-rpms]\nname = Red Hat\nbaseurl = https://cdn.example.com/content/eus/rhel9/$releasever/$basearch/baseos/os\nenabled = 1\n" +
				"gpgcheck = 1\ngpgkey = file:///etc/pki/rpm-gpg/KEY\nsslverify = 1\nsslcacert = /etc/rhsm/ca/redhat-uep.pem\nsslclientkey = /etc/pki/entitlement/1-key.pem\nsslclientcert = /etc/pki/entitlement/1.pem\nsslverifystatus = 1\nmetadata_expire = 86400\nenabled_metadata = 0\n" +
				"[rhel-9-source]\nbaseurl = https://x\nenabled = 0\n",
		}, Vars{"releasever": "9.4", "basearch": "x86_64"}, []Source{
			{ID: "ubi-9-baseos-rpms", Name: "UBI", BaseURLs: []string{"https://cdn-ubi.example.com/content/public/ubi/dist/ubi9/9/x86_64/baseos/os"}, GPGCheck: true, GPGKeys: key},
			{
				ID: "rhel-9-for-x86_64-baseos-eus-rpms", Name: "Red Hat", BaseURLs: []string{"https://cdn.example.com/content/eus/rhel9/9.4/x86_64/baseos/os"}, GPGCheck: true, GPGKeys: key,
				SSL: SSL{CA: "/etc/rhsm/ca/redhat-uep.pem", Cert: "/etc/pki/entitlement/1.pem", Key: "/etc/pki/entitlement/1-key.pem"},
			},
		}},
		{"nothing", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := require.Value(ReadSources(testfile.FS(c.files), c.vars))(t)
			for i := range got {
				got[i].Origin = ""
			}
			if diff := cmp.Diff(c.want, got, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "|") })); diff != "" {
				t.Errorf("ReadSources:\n%s", diff)
			}
		})
	}
}

func TestReadSourcesMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[a\nb=c":      "x.repo:1:",
		"a=b\n":        "x.repo:1:",
		"[a]\nhello\n": "x.repo:2:",
		"[a]\nbaseurl=http://x\ngpgcheck=perhaps": "gpgcheck=",
		"[a]\nbaseurl=http://x\npriority=high":    "priority=",
		"[a]\nbaseurl=http://x\nproxy=nothing":    "proxy",
		"[a]\nbaseurl=http://a b%zz":              "",
		"[a]\nbaseurl=http://%zz":                 "baseurl",
		strings.Repeat("[a]\n", maxSections+1):    "sections",
		strings.Repeat("#\n", 1<<20):              "larger",
	} {
		_, err := ReadSources(testfile.FS(map[string]string{"etc/yum.repos.d/x.repo": text}), nil)
		if !errors.Is(err, distros.ErrSources) || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadSources(%.40q) = %v; want distros.ErrSources with %q", text, err, want)
		}
	}
}

func TestReadVars(t *testing.T) {
	t.Parallel()
	provides := func(name, version string, rels ...string) rpmfile.Metadata {
		m := rpmfile.Metadata{Name: name, EVR: rpmfile.EVR{Version: version, Release: "1"}}
		for _, r := range rels {
			req := require.Value(rpmfile.ParseRequirement(r))(t)
			m.Provides = append(m.Provides, req.Relation)
		}
		return m
	}
	for _, c := range []struct {
		name      string
		files     map[string]string
		installed []rpmfile.Metadata
		want      Vars
	}{
		{"el9", nil, []rpmfile.Metadata{provides("bash", "5"), provides("rocky-release", "9.4", "system-release = 9.4-1.7.el9", "system-release(releasever) = 9")}, Vars{"releasever": "9"}},
		{"el7", nil, []rpmfile.Metadata{provides("centos-release", "7", "centos-release = 7-9.2009.1.el7.centos", "redhat-release = 7.9", "system-release")}, Vars{"releasever": "7"}},
		{"amazon 2023", nil, []rpmfile.Metadata{provides("system-release", "2023.6.20241010", "system-release = 2023.6.20241010-0.amzn2023", "system-release(releasever) = 2023.6.20241010")}, Vars{"releasever": "2023.6.20241010"}},
		{"leap", map[string]string{"etc/products.d/baseproduct": "<?xml version=\"1.0\"?>\n<product schemeversion=\"0\"><vendor>openSUSE</vendor><name>Leap</name><version>15.6</version></product>"},
			[]rpmfile.Metadata{provides("openSUSE-release", "15", "distribution-release")}, Vars{"releasever": "15.6"}},
		{"os-release", map[string]string{"etc/os-release": "ID=x\nVERSION_ID=\"41\"\n"}, nil, Vars{"releasever": "41"}},
		{"site", map[string]string{"etc/yum/vars/a": "1\n", "etc/dnf/vars/a": "2\nmore\n", "etc/dnf/vars/releasever": "9.2\n", "etc/dnf/vars/bad-name": "x", "usr/lib/os-release": "VERSION_ID=9"}, nil,
			Vars{"releasever": "9.2", "a": "2"}},
		{"nothing", nil, nil, Vars{}},
	} {
		c.want["arch"], c.want["basearch"] = "x86_64", "x86_64"
		got := require.Value(ReadVars(testfile.FS(c.files), c.installed, "x86_64"))(t)
		assert.Samef(t, c.want, got, "%s: ReadVars", c.name)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	v := Vars{"a": "1", "empty": "", "releasever": "9.4"}
	for text, want := range map[string]string{
		"$a": "1", "x$a.y": "x1.y", "${a}b": "1b", "$ab": "$ab", "${ab}": "${ab}", "$": "$", "${": "${", "${a": "${a", "$$a": "$1",
		"${empty:-x}": "x", "${a:-x}": "1", "${empty:+x}": "", "${a:+x$a}": "x1", "${no:-${empty:-z}}": "z", "$releasever_major/$releasever_minor": "9/4", "${no:+x}": "", "$empty": "",
		strings.Repeat("${no:-", 50) + strings.Repeat("}", 50): "",
	} {
		if got := v.Expand(text); got != want && want+text != text {
			t.Errorf("expand(%q) = %q; want %q", text, got, want)
		}
	}
}

func FuzzSources(f *testing.F) {
	f.Add("[a]\nname=x\nbaseurl=http://example.com/$releasever\n  https://u:p@b/?q\ngpgcheck=1\n#baseurl=http://x\nexclude=a b\n", true)
	f.Add("[a]\nmirrorlist: http://x/${a:-b}\nenabled=0\n[b]\nproxy=http://x\nproxy_username=u\n", false)
	f.Fuzz(func(t *testing.T, text string, zypp bool) {
		name := "etc/yum.repos.d/x.repo"
		if zypp {
			name = "etc/zypp/repos.d/x.repo"
		}
		sources, err := ReadSources(testfile.FS(map[string]string{name: text}), Vars{"releasever": "9.4", "a": "$a"})
		if err != nil {
			assert.ErrorIs(t, err, distros.ErrSources)
			return
		}
		for i := range sources {
			s := &sources[i]
			if s.Check() != nil {
				continue
			}
			for _, u := range s.BaseURLs {
				if strings.Contains(u, "?") || IsRemote(u) && strings.Contains(strings.Split(u, "/")[2], "@") {
					t.Errorf("a secret stayed in %q", u)
				}
			}
		}
		if _, err := mirrored(sources, "http://m.example/a b=http://n"); err != nil && !errors.Is(err, distros.ErrSources) {
			t.Error(err)
		}
	})
}

func FuzzVars(f *testing.F) {
	f.Add("http://$a/${b:-$c}/${releasever_major:+x}")
	f.Fuzz(func(t *testing.T, text string) {
		if out := (Vars{"a": "$a$a", "releasever": "9.4"}).Expand(text); len(out) > 10*len(text)+maxText {
			t.Errorf("%d bytes became %d", len(text), len(out))
		}
	})
}

func TestWithSubscription(t *testing.T) {
	t.Parallel()
	machine := testfile.FS(map[string]string{mountedRedhat: "[appstream]\nbaseurl=https://cdn.example.com/$releasever\n"})
	base := []Source{{Origin: redhatRepo + ":1", ID: "old"}, {Origin: "x", ID: "appstream"}, {Origin: "y", ID: "site"}}
	for id, want := range map[string]string{"ID=rhel\n": "site appstream", "ID=\"rhel\"\n": "site appstream", "ID=rocky\nID_LIKE=\"rhel\"\n": "old appstream site", "": "old appstream site"} {
		got, err := WithSubscription(base, testfile.FS(map[string]string{"etc/os-release": id}), machine, Vars{"releasever": "9"})
		var ids []string
		for _, s := range got {
			ids = append(ids, s.ID)
		}
		if err != nil || strings.Join(ids, " ") != want {
			t.Errorf("WithSubscription(%q) = %q, %v; want %s", id, ids, err, want)
		}
	}
}
