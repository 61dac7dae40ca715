package headers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	confLimit = 20 * time.Second // for apt-config, which reads a few files
	maxDump   = 1 << 20          // bytes of what it prints; Debian's has 15 kB
)

// conf holds the settings of apt.conf(5) about downloads by their full name in lower case:
// "acquire::http::proxy". Lists are not kept, since no download setting that matters here is a
// list.
type conf map[string]string

// off says whether a setting switches something off.
func (c conf) off(name string) bool {
	return slices.Contains(
		[]string{"no", "false", "0", "off", "without", "disable"},
		strings.ToLower(c[name]),
	)
}

// readConf asks the image's apt for its settings. Without an answer it logs a warning, and there
// are none: the packages may be reachable without them.
func (f *fetcher) readConf(ctx context.Context) conf {
	text, err := f.dumpConf(ctx)
	if err != nil {
		f.Log.Warn(
			"apt-config gives no settings: repositories are asked without proxies and certificates of apt.conf",
			"error", err,
		)
		return conf{}
	}
	return parseDump(text)
}

func (f *fetcher) dumpConf(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, confLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "apt-config", "dump")
	cmd.WaitDelay = time.Second
	stdout := bounded.Buffer{Limit: maxDump}
	stderr := bounded.Buffer{Limit: 1 << 10}
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if !f.own() { // apt reads this file first, and its folders from there on
		file, err := os.CreateTemp("", "apt-conf-")
		if err != nil {
			return "", err
		}
		defer os.Remove(file.Name()) //nolint:errcheck // of the container's temporary folder
		_, err = fmt.Fprintf(file, "Dir %q;\n", f.Root)
		err = errors.Join(err, file.Close())
		if err != nil {
			return "", err
		}
		cmd.Env = append(os.Environ(), "APT_CONFIG="+file.Name())
	}
	err := cmd.Run()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Kept))
	}
	return string(stdout.Kept), nil
}

// parseDump reads lines such as
//
//	Acquire::http::Proxy "http://proxy:3128";
func parseDump(text string) conf {
	c := conf{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.ToLower(name)
		value, quoted := strings.CutPrefix(value, `"`)
		value, ended := strings.CutSuffix(value, `";`)
		if quoted && ended && value != "" && strings.HasPrefix(name, "acquire::") &&
			!strings.HasSuffix(name, "::") {
			c[name] = value
		}
	}
	return c
}
