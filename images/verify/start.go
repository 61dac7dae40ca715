package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// loading are variables that make a program load a library, run a program or compile with one.
var loading = []string{
	"BASH_ENV", "SHELLOPTS", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "GCONV_PATH", "GLIBC_TUNABLES", "MODPROBE_OPTIONS",
	"CC", "CXX", "HOSTCC", "MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "KCFLAGS", "GCC_EXEC_PREFIX", "COMPILER_PATH", "PERL5LIB", "PERL5OPT",
}

// checkStart: process 1 is privileged. It has to be the program that it looks like, as root, with
// nothing that other programs load, and with the image's own files in their places.
func checkStart(s *subject) {
	c := s.config.Config
	if command := slices.Concat(c.Entrypoint, c.Cmd); len(command) > 0 {
		switch name := path.Base(command[0]); {
		case name == "env" || name == "busybox" || name == "nsenter":
			s.fail("", "the image starts %.200q: %s starts something else; start nvidia-driver itself", strings.Join(command, " "), name)
		case shell.MatchString(name) && len(command) > 2 && strings.HasPrefix(command[1], "-") && !simple.MatchString(strings.Join(command[2:], " ")):
			s.fail("", "the image starts the script %.200q: start nvidia-driver itself", strings.Join(command[2:], " "))
		}
	}
	seen := map[string]bool{}
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if seen[name] {
			s.fail("", "the variable %.100s is there twice: programs see one or the other", name)
		}
		seen[name] = true
		if value != "" && (strings.HasPrefix(name, "LD_") && name != "LD_LIBRARY_PATH" || slices.Contains(loading, name)) {
			s.fail("", "%.100s is %.200q: every program that knows it loads or does what it says", name, value)
		}
	}
	if user, group, _ := strings.Cut(c.User, ":"); !slices.Contains([]string{"", "root", "0"}, user) || !slices.Contains([]string{"", "root", "0"}, group) {
		s.fail("", "the image starts as user %.100s: only root loads modules", c.User)
	}
	for volume := range c.Volumes {
		for _, dir := range slices.Concat(s.libraryDirs, s.programDirs, []string{recipe.ShareDir, "usr/src", "lib/firmware", "etc"}) {
			if v := strings.Trim(path.Clean("/"+volume), "/"); v == "" || v == dir || recipe.InFolder(dir, v) || recipe.InFolder(v, dir) {
				s.fail("", "the volume %.200q hides /%s of the image", volume, dir)
				break
			}
		}
	}
	if signal := strings.TrimPrefix(c.StopSignal, "SIG"); signal != "" && signal != "TERM" && signal != "15" {
		s.fail("", "StopSignal is %.100q: the driver is unloaded at SIGTERM", c.StopSignal)
	}
	if c.Healthcheck != nil && len(c.Healthcheck.Test) > 0 && c.Healthcheck.Test[0] != "NONE" {
		s.find(Warning, "", "Healthcheck runs %.200q as root, again and again", strings.Join(c.Healthcheck.Test, " "))
	}
	s.checkSearch()
}

// simple is a command of a shell that starts the driver and nothing else.
var (
	shell  = regexp.MustCompile(`^(?:ba|da|a|k|z)?sh$`)
	simple = regexp.MustCompile(`^(?:exec )?/?[A-Za-z0-9/_.-]*nvidia-driver(?: [a-z-]+)*$`)
)

// usual are the folders of programs that distributions have; those of NVIDIA's images follow them.
var usual = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

// checkSearch: a program or a library in a folder that is searched before the usual ones takes the
// place of another one.
func (s *subject) checkSearch() {
	own := s.folders(usual...)
	var before []string
	for dir := range strings.SplitSeq(s.env("PATH"), ":") {
		at := s.folders(dir)
		switch {
		case s.env("PATH") != "" && !strings.HasPrefix(dir, "/"):
			s.fail("", "PATH has %q, which is the folder that a program happens to be in", dir)
		case len(at) == 0:
		case slices.Contains(own, at[0]):
			s.checkShadowed("PATH", before, at[0])
		default:
			before = append(before, at[0])
		}
	}
	searched := s.folders(strings.Split(s.env("LD_LIBRARY_PATH"), ":")...)
	for _, dir := range s.folders(append(slices.Clone(consumerDirs), "lib", "usr/lib")...) {
		others := slices.DeleteFunc(
			slices.Clone(searched),
			func(other string) bool { return other == dir },
		)
		s.checkShadowed("LD_LIBRARY_PATH", others, dir)
	}
}

// checkShadowed finds files of a folder that are in one that a variable names before it.
func (s *subject) checkShadowed(variable string, before []string, dir string) {
	for _, other := range before {
		for _, name := range s.below(other) {
			here := s.at(name)
			there := s.at(path.Join(dir, path.Base(name)))
			if here != nil && there != nil && here.Kind == rootfs.File && here.Path != there.Path {
				s.fail(
					name,
					"takes the place of /%s, because %s names its folder first",
					there.Path,
					variable,
				)
			}
		}
	}
}

// checkPreload: what is preloaded runs in every program of the image, the driver's included.
func checkPreload(s *subject) {
	if e := s.at("etc/ld.so.preload"); e != nil && (e.Kind != rootfs.File || e.Size > 0) {
		s.fail(
			"etc/ld.so.preload",
			"makes every program load more libraries: neither a driver nor a distribution has such a file",
		)
	}
	for _, e := range s.all {
		name := path.Base(e.Path)
		settings := strings.Contains(name, ".cnf") || strings.Contains(name, ".conf")
		if e.Kind != rootfs.File || !settings || !recipe.HasPrefix(opensslFolders, e.Path) {
			continue
		}
		if line := loadsLibrary.Find(s.text(e.Path, maxConfig)); line != nil {
			s.fail(
				e.Path,
				"lets OpenSSL load a library into every program: %.200q",
				strings.TrimSpace(string(line)),
			)
		}
	}
}

// opensslFolders are those where distributions have OpenSSL's settings.
var opensslFolders = []string{"etc/ssl/", "etc/pki/tls/", "etc/crypto-policies/", "usr/lib/ssl/"}

// loadsLibrary matches the settings by which OpenSSL loads a library into each program that uses
// it.
var loadsLibrary = regexp.MustCompile(
	`(?m)^\s*(?:dynamic_path|module|engine_id|SO_PATH|LIST_ADD)\s*=.*$`,
)
