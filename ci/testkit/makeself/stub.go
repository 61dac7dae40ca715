package makeself

import (
	"bytes"
	"fmt"
	"strings"
)

// headLines is the number of lines before the first line of the stub: shebang, CRCsum, MD5.
const headLines = 3

// stub returns the shell script from line 4 to END_OF_STUB. It refuses to run.
func (a *Archive) stub() string {
	const script = `
echo "This is a generated test archive. It holds a driver's files, but no installer." >&2
exit 1
END_OF_STUB
`
	// 15 variables, then the script, whose first newline ends the last variable's line.
	lines := headLines + 15 + strings.Count(script, "\n") - 1
	skipDecompress, sizeDecompress := lines+1, 0
	if len(a.Decompressor) > 0 {
		sizeDecompress = bytes.Count(a.Decompressor, []byte{'\n'}) + 1
	}
	vars := []string{
		fmt.Sprintf("skip=%d", skipDecompress+sizeDecompress),
		fmt.Sprintf("skip_decompress=%d", skipDecompress),
		fmt.Sprintf("size_decompress=%d", sizeDecompress),
		fmt.Sprintf("label=%q", description(a.Arch)+" "+a.Version),
		"version_string=" + a.Version,
		"pkg_version=0",
		"script=./nvidia-installer",
		"targetdir=" + strings.TrimSuffix(a.Name(), ".run"),
		`scriptargs=""`,
		"keep=n",
		"add_this_kernel=n",
		"apply_patch=n",
		"TMPROOT=${TMPDIR:=/tmp}",
		`TARGET_OS="Linux"`,
		fmt.Sprintf("TARGET_ARCH=%q", a.Arch),
	}
	return strings.Join(vars, "\n") + script
}

func description(arch string) string { return "NVIDIA Accelerated Graphics Driver for Linux-" + arch }
