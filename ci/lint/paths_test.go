package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/verify"
)

// entrypointCode are the packages of driver-entrypoint.
var entrypointCode = []string{"cmd/driver-entrypoint", "node", "kmod", "distros"}

// unread are paths in the code of driver-entrypoint that it does not read in the image's folder of that name.
var unread = map[string]string{
	"usr/share/doc": "driverroot leaves it out", "usr/share/man": "driverroot leaves it out", "usr/share/info": "driverroot leaves it out",
	"var/log": "daemons write there", "var/log/fabricmanager.log": "the fabric manager writes it",
	"var/log/pods": "below the host's root", "opt/bin": "below the host's root",
	"root": "the root of a process, /proc/PID/root", "root/usr/bin": "the end of a path below opt/rh",
}

// notRead are the reasons of verify.Harmless for folders that may well be named in the code.
var notRead = map[string]string{
	"the container's own folder hides it": "the runtime mounts a file system there in every container",
	"certificates: a site adds its own":   "what is fetched with them has a signature that is verified",
}

// TestPathsOfPrograms: no file may be put unnoticed where driver-entrypoint looks. verify calls a change of an image's
// files in some folders harmless; the paths that this program reads are not in them.
func TestPathsOfPrograms(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, folder := range entrypointCode {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				name := strings.Trim(path.Clean(text), "/")
				used[name] = true
				if !strings.Contains(strings.TrimSuffix(text, "/"), "/") || strings.ContainsAny(text, " \n") { // a word, or a text
					return true
				}
				reason := verify.Harmless(name, true)
				if reason != "" && notRead[reason] == "" && unread[name] == "" {
					t.Errorf("%s: the program uses /%s, and verify calls what is added there harmless (%s): name it in images/verify/files.go, or here",
						file, name, reason)
				}
				return true
			})
			return nil
		}))
	}
	for name := range unread {
		if !used[name] || verify.Harmless(name, true) == "" {
			t.Errorf("/%s is no path of the code in a folder that verify calls harmless", name)
		}
	}
}
