package guest

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// Read returns the content of a file of the guest's host, of some MiB at most.
func (g *Guest) Read(ctx context.Context, path string) ([]byte, error) {
	text, err := g.client.output(ctx, wire.Request{Args: []string{"base64", path}})
	if err != nil {
		return nil, fmt.Errorf("read %s of the guest: %w", path, err)
	}
	content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, fmt.Errorf("read %s of the guest: it is too large, or not read as a whole: %w", path, err)
	}
	return content, nil
}

// Exists says whether a path exists on the guest's host; a dangling link counts.
func (g *Guest) Exists(ctx context.Context, path string) (bool, error) {
	result, err := g.Run(ctx, "sh", "-c", `[ -e "$1" ] || [ -L "$1" ]`, "sh", path)
	return result.Code == 0 && err == nil, err
}

// Write writes a file on the guest's host, and makes its folder if that is missing. Mode 0 means
// 0644.
func (g *Guest) Write(ctx context.Context, path string, content []byte, mode os.FileMode) error {
	const script = `[ -e "$1" ] || { mkdir -p "${1%/*}" && : >"$1" && chmod "$2" "$1"; }; cat >"$1"`
	perm := strconv.FormatUint(uint64(cmp.Or(mode.Perm(), 0o644)), 8)
	args := []string{"sh", "-c", script, "sh", path, perm}
	_, err := g.client.output(ctx, wire.Request{Args: args, Input: content})
	return err
}

// Modules returns the names of the loaded modules, sorted.
func (g *Guest) Modules(ctx context.Context) ([]string, error) {
	text, err := g.Read(ctx, "/proc/modules")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Dmesg returns the kernel log since boot, escaped.
func (g *Guest) Dmesg(ctx context.Context) (string, error) {
	return g.client.output(ctx, wire.Request{Args: []string{"dmesg"}})
}

// Hold opens a file of the guest's host, a device, and keeps it open until Process.Kill. It returns
// when the file is open.
func (g *Guest) Hold(ctx context.Context, path string) (*Process, error) {
	return g.client.hold(ctx, wire.Request{Args: holding(path)})
}
