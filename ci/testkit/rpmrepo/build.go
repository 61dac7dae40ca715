package rpmrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// buildCatalogue packs the software, which is in trees/NAME, into folders of out that are named after its
// parts.
func buildCatalogue(ctx context.Context, sys system, catalogue []software, debs []deb, trees, out string) (err error) {
	names := map[string]string{}
	for _, s := range catalogue {
		names[s.name] = s.nameIn(sys)
	}
	root, err := os.MkdirTemp(out, ".root-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	parts := map[part][]piece{}
	for _, s := range catalogue {
		lines, err := s.tree(ctx, sys, filepath.Join(trees, s.name), root)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(debs, func(d deb) bool { return d.name == s.debs[0] })
		p := piece{name: s.nameIn(sys), automatic: !s.plain, provides: s.provides, files: lines}
		p.epoch, p.version, p.release = versionOf(debs[i].version, sys.dist)
		for _, need := range s.needs {
			if name, rest, _ := strings.Cut(need, " "); names[name] != "" {
				need = strings.TrimSpace(names[name] + " " + rest)
			}
			if !strings.HasPrefix(need, "(") || sys.rich() {
				p.requires = append(p.requires, need)
			}
		}
		if s.name == "glibc-common" {
			p.files = append(p.files, "%ghost %config(missingok,noreplace) %verify(not md5 size mtime) /etc/ld.so.cache")
			if err := os.WriteFile(filepath.Join(root, "etc/ld.so.cache"), nil, 0o644); err != nil {
				return err
			}
		}
		parts[s.part] = append(parts[s.part], p)
	}
	for part, pieces := range parts {
		dir := filepath.Join(out, fmt.Sprint("part-", part))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := rpmbuild(ctx, sys, pieces, root, dir); err != nil {
			return err
		}
	}
	return nil
}

// tree adds the software's files to a root, and returns their lines of %files.
func (s software) tree(ctx context.Context, sys system, from, root string) (lines []string, err error) {
	if sys.suse && (s.without != nil || s.with != nil) {
		changed, err := os.MkdirTemp(filepath.Dir(root), ".tree-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(changed)) }()
		if _, err := Run(ctx, "", "cp", "-a", from+"/.", changed); err != nil {
			return nil, err
		}
		if err := s.atSUSE(sys, changed); err != nil {
			return nil, err
		}
		from = changed
	}
	if _, err := Run(ctx, "", "cp", "-a", from+"/.", root); err != nil {
		return nil, err
	}
	return fileLines(from)
}

// atSUSE changes a tree to what the package has on SUSE's systems.
func (s software) atSUSE(sys system, tree string) error {
	for _, name := range s.without {
		if err := os.Remove(filepath.Join(tree, name)); err != nil {
			return err
		}
	}
	for name, target := range s.with {
		if err := os.Symlink(target, filepath.Join(tree, name+sys.gcc)); err != nil {
			return err
		}
	}
	return nil
}

// rich says whether the system's rpm supports rich dependencies.
func (s system) rich() bool { return !s.oldSigns }

// buildSystem packs the files of the system itself: its folders, its users, its name, keys and repositories.
func buildSystem(ctx context.Context, sys system, key []byte, out string) (err error) {
	root, err := os.MkdirTemp(out, ".root-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	var pieces []piece
	folders, err := filesystem(sys, root)
	if err != nil {
		return err
	}
	pieces = append(pieces, piece{name: "filesystem", version: "3.16", release: "2" + sys.dist, requires: []string{"setup"}, provides: []string{"filesystem(unmerged-sbin-symlinks)"}, files: folders})
	for _, p := range []struct {
		piece piece
		files map[string]string
	}{
		{piece{name: "setup", version: "2.13.7", release: "10" + sys.dist, noarch: true, requires: []string{"system-release"}}, map[string]string{
			"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:Kernel Overflow User:/:/sbin/nologin\n",
			"etc/group":  "root:x:0:\nnobody:x:65534:\n", "etc/shells": "/bin/sh\n/bin/bash\n", "etc/host.conf": "multi on\n", "etc/profile": "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n",
		}},
		{sys.releasePiece(), sys.releaseFiles(key)},
	} {
		for name, text := range p.files {
			if err := WriteFile(filepath.Join(root, name), text); err != nil {
				return err
			}
			mark := ""
			if strings.HasPrefix(name, "etc/") && !strings.HasPrefix(name, "etc/products.d") {
				mark = "%config(noreplace) "
			}
			p.piece.files = append(p.piece.files, mark+"/"+name)
		}
		slices.Sort(p.piece.files)
		pieces = append(pieces, p.piece)
	}
	dir := filepath.Join(out, fmt.Sprint("part-", core))
	return rpmbuild(ctx, sys, pieces, root, dir)
}

func (s system) releasePiece() piece {
	major, _, _ := strings.Cut(s.version, ".")
	if s.suse || !strings.HasPrefix(s.dist, ".el") {
		major = s.version
	}
	return piece{name: s.release, version: s.version, release: "1" + s.dist, noarch: true, provides: []string{
		"system-release = " + s.version, "system-release(releasever) = " + major, "redhat-release = " + s.version, "distribution-release = " + s.version,
	}}
}

func (s system) releaseFiles(key []byte) map[string]string {
	files := map[string]string{"etc/os-release": s.osRelease, s.key: string(key)}
	maps.Copy(files, s.files)
	for _, r := range s.repos {
		files[r.file] += r.text
	}
	return files
}

// filesystem makes the folders of a root and returns their lines of %files. Debian's loader and compiler look
// for libraries in folders that these systems do not have, so it makes links with those names.
func filesystem(sys system, root string) ([]string, error) {
	modes := map[string]fs.FileMode{"tmp": 0o777 | fs.ModeSticky, "var/tmp": 0o777 | fs.ModeSticky, "root": 0o550, "proc": 0o555, "sys": 0o555}
	links := map[string]string{"var/run": "../run", "var/lock": "../run/lock", "usr/lib/x86_64-linux-gnu": "../lib64"}
	if sys.product != "" {
		links["etc/products.d/baseproduct"] = sys.product
	}
	folders := strings.Fields(`dev proc sys run tmp root home opt mnt srv etc boot media usr usr/bin usr/sbin usr/lib usr/lib64 usr/include usr/share usr/src usr/libexec
		usr/local usr/local/bin usr/local/sbin var var/lib var/tmp var/log var/cache etc/pki etc/pki/rpm-gpg etc/ld.so.conf.d usr/share/licenses`)
	for _, top := range []string{"bin", "sbin", "lib", "lib64"} {
		links[top] = "usr/" + top
	}
	if sys.product != "" && sys.merged {
		folders = append(folders, "usr/lib/modules", "etc/products.d")
	}
	if sys.azure {
		folders = slices.DeleteFunc(folders, func(f string) bool { return f == "usr/lib64" })
		links["lib64"], links["usr/lib64"], links["usr/lib/x86_64-linux-gnu"] = "usr/lib", "lib", "."
	}
	if sys.suse && !sys.merged { // Leap 15 has folders instead of these links
		folders = append(folders, "bin", "sbin", "lib", "lib64")
		for _, top := range []string{"bin", "sbin", "lib", "lib64"} {
			delete(links, top)
		}
		links["bin/sh"], links["bin/bash"], links["lib/x86_64-linux-gnu"], links["lib/modules"] = "../usr/bin/bash", "../usr/bin/bash", "../lib64", "../usr/lib/modules"
		folders = append(folders, "usr/lib/modules", "etc/products.d")
	}
	var lines []string
	for _, name := range folders {
		mode := modes[name]
		if mode == 0 {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return nil, err
		}
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			return nil, err
		}
		lines = append(lines, "%dir /"+name)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			return nil, err
		}
		lines = append(lines, "/"+name)
	}
	slices.Sort(lines)
	return lines, nil
}

// WriteFile writes a file and makes the folders above it.
func WriteFile(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
