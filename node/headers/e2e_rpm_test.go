package headers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// TestRealRPM fetches headers from repositories that rpmbuild, rpmsign and createrepo_c made in the style of
// each system, and passes them to kmod/kbuild.
func TestRealRPM(t *testing.T) {
	tool.Real(t, "needs the programs of rpm")
	key := realrepo.NewKey(t, "rsa2048")
	for _, test := range []struct {
		system, version string // ID and VERSION_ID
		release         string
		payload         string
		repository      realrepo.Repository
		signed          bool // the packages are signed
		folder, repo    string
		packages        []realrepo.Package
		want            []string
	}{
		{
			system: "centos", version: "7", release: "3.10.0-1160.119.1.el7.x86_64", signed: true,
			repository: realrepo.Repository{Compression: "gz", Database: true, Simple: true},
			folder:     "etc/yum.repos.d", repo: "[updates]\nbaseurl=URL\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n",
			packages: []realrepo.Package{realDevel("kernel-devel", "3.10.0-1160.119.1.el7", "3.10.0-1160.119.1.el7.x86_64", "w6.xzdio")},
			want:     []string{"kernel-devel 3.10.0-1160.119.1.el7"},
		},
		{
			system: "rocky", version: "9.4", release: "5.14.0-427.13.1.el9_4.x86_64", signed: true,
			repository: realrepo.Repository{Compression: "gz"},
			folder:     "etc/yum.repos.d", repo: "[appstream]\nbaseurl=URL\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n",
			packages: []realrepo.Package{
				realDevel("kernel-devel", "5.14.0-427.13.1.el9_4", "5.14.0-427.13.1.el9_4.x86_64", "w19.zstdio"),
				realDevel("kernel-devel", "5.14.0-427.11.1.el9_4", "5.14.0-427.11.1.el9_4.x86_64", "w19.zstdio"),
				realDevel("kernel-rt-devel", "5.14.0-427.13.1.el9_4", "5.14.0-427.13.1.el9_4.x86_64+rt", "w19.zstdio"),
			},
			want: []string{"kernel-devel 5.14.0-427.13.1.el9_4"},
		},
		{
			system: "amzn", version: "2023", release: "6.1.112-122.189.amzn2023.x86_64",
			repository: realrepo.Repository{Key: key},
			folder:     "etc/yum.repos.d", repo: "[amazonlinux]\nbaseurl=URL\ngpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n",
			packages: []realrepo.Package{realDevel("kernel-devel", "6.1.112-122.189.amzn2023", "6.1.112-122.189.amzn2023.x86_64", "w19.zstdio")},
			want:     []string{"kernel-devel 6.1.112-122.189.amzn2023"},
		},
		{
			system: "azurelinux", version: "3.0", release: "6.18.31.1-1.azl3",
			repository: realrepo.Repository{Compression: "gz", Key: key, PublishKey: true},
			folder:     "etc/yum.repos.d", repo: "[azurelinux-official-base]\nbaseurl=URL\ngpgkey=file:///etc/pki/rpm-gpg/KEY\ngpgcheck=1\nrepo_gpgcheck=1\nenabled=1\nskip_if_unavailable=True\n",
			packages: []realrepo.Package{realAzure("kernel", "6.6.64.2-7.azl3"), realAzure("kernel-hwe", "6.18.31.1-1.azl3")},
			want:     []string{"kernel-hwe-devel 6.18.31.1-1.azl3"},
		},
		{
			system: "opensuse-leap", version: "15.6", release: "6.4.0-150600.23.25-default",
			repository: realrepo.Repository{Compression: "gz", Checksum: "sha512", Key: key, PublishKey: true},
			folder:     "etc/zypp/repos.d", repo: "# Repository 'openSUSE:repo-oss' is maintained by the 'openSUSE' service.\n[openSUSE:repo-oss]\n" +
				"name=repo-oss (${releasever})\nenabled=1\nautorefresh=1\nbaseurl=URL\ngpgkey=file:///etc/pki/rpm-gpg/KEY\nservice=openSUSE\n",
			packages: realSUSE("6.4.0-150600.23.25"),
			want:     []string{"kernel-devel 6.4.0-150600.23.25.1", "kernel-default-devel 6.4.0-150600.23.25.1"},
		},
	} {
		t.Run(test.system+test.version, func(t *testing.T) {
			rpms := realrepo.Build(t, test.packages...)
			if test.signed {
				key.SignPackages(t, rpms)
			}
			test.repository.Packages = rpms
			url := realrepo.Serve(t, test.repository.Create(t, t.TempDir()))
			i := newRPMImage(t, "")
			require.NoError(t, os.Remove(filepath.Join(i.dir, "etc/yum.repos.d/test.repo")))
			i.write("etc/os-release", "ID=\""+test.system+"\"\nVERSION_ID=\""+test.version+"\"\n")
			i.write("etc/pki/rpm-gpg/KEY", string(key.Public))
			i.write(filepath.Join(test.folder, "real.repo"), strings.ReplaceAll(test.repo, "URL", url))
			got, err := i.fetchRelease(test.release)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Fatal(err, diff, i.log())
			}
			found := require.Value(buildtree.Find(test.release, []buildtree.Root{{Dir: i.into, Name: "fetched"}}))(t)
			t.Logf("kmod/kbuild found %+v", found)
		})
	}
}

// realTree is the minimum that kmod/kbuild accepts as headers.
func realTree(dir, release string) []realrepo.File {
	var files []realrepo.File
	for name, body := range map[string]string{
		".config": "CONFIG_MODULES=y\n", "Makefile": "all:\n", "Module.symvers": "0x0\tx\tvmlinux\tEXPORT_SYMBOL\t\n",
		"include/config/kernel.release": release + "\n", "include/generated/utsrelease.h": "#define UTS_RELEASE \"" + release + "\"\n",
		"include/generated/autoconf.h": "#define CONFIG_MODULES 1\n",
		"include/config/auto.conf":     "CONFIG_MODULES=y\nCONFIG_CC_VERSION_TEXT=\"gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)\"\n",
	} {
		files = append(files, realrepo.File{Path: dir + "/" + name, Body: body})
	}
	return append(files, realrepo.File{Path: dir + "/scripts/mod/modpost", Body: "#!/bin/sh\n", Mode: 0o755})
}

func realDevel(name, version, release, payload string) realrepo.Package {
	return realrepo.Package{
		Name: name, Version: version, Arch: "x86_64", Payload: payload, Provides: []string{"kernel-devel-uname-r = " + release},
		Requires: []string{"findutils", "elfutils-libelf-devel", "/usr/bin/perl"},
		Files:    append(realTree("/usr/src/kernels/"+release, release), realrepo.File{Path: "/usr/src/kernels/" + release + "/include/linux/module.h", Body: "/* */\n"}),
	}
}

// realAzure is the headers package of one of Azure Linux's kernels, which requires the kernel.
func realAzure(kernel, version string) realrepo.Package {
	tree := "/usr/src/linux-headers-" + version
	return realrepo.Package{
		Name: kernel + "-devel", Version: version, Arch: "x86_64", Payload: "w19.zstdio", Requires: []string{kernel + " = " + version, "gawk", "python3"},
		Files: append(realTree(tree, version), realrepo.File{Path: tree + "/include/linux/module.h", Body: "/* */\n"},
			realrepo.File{Path: "/lib/modules/" + version + "/build", Body: tree, Mode: os.ModeSymlink | 0o777}),
	}
}

func realSUSE(version string) []realrepo.Package {
	release, src := version+"-default", "/usr/src/linux-"+version
	obj := src + "-obj/x86_64/default"
	return []realrepo.Package{
		{
			Name: "kernel-default-devel", Version: version + ".1", Arch: "x86_64", Payload: "w6.xzdio", Provides: []string{"kernel-default-devel = " + version},
			Requires: []string{"kernel-devel = " + version, "libelf-devel"},
			Files: append(realTree(obj, release),
				realrepo.File{Path: "/lib/modules/" + release + "/build", Body: obj, Mode: os.ModeSymlink | 0o777},
				realrepo.File{Path: "/lib/modules/" + release + "/source", Body: src, Mode: os.ModeSymlink | 0o777}),
		},
		{
			Name: "kernel-devel", Version: version + ".1", Arch: "noarch", Payload: "w6.xzdio", Provides: []string{"kernel-devel = " + version},
			Requires: []string{"kernel-macros"}, Files: []realrepo.File{{Path: src + "/Makefile", Body: "all:\n"}, {Path: src + "/include/linux/module.h", Body: "/* */\n"}},
		},
		{Name: "kernel-macros", Version: version + ".1", Arch: "noarch", Files: []realrepo.File{{Path: "/usr/lib/rpm/macros.d/x", Body: "%x y\n"}}},
	}
}
