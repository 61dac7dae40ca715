package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{nil, 0, "usage: nvidia-driver COMMAND", ""},
		{[]string{"help"}, 0, "exit code 11", ""},
		{[]string{"-h"}, 0, "usage:", ""},
		{[]string{"--help"}, 0, "usage:", ""},
		{[]string{"version"}, 0, "driver 535.261.03\n", ""},
		{[]string{"init"}, 11, "", "nothing was changed"},
		{[]string{"init", "--more"}, 11, "", "nothing was changed"},
		{[]string{"start"}, 2, "", `unknown command "start"`},
		{[]string{""}, 2, "", "usage:"},
	} {
		var stdout, stderr bytes.Buffer
		getenv := func(name string) string { return map[string]string{"DRIVER_VERSION": "535.261.03"}[name] }
		if code := run(c.args, getenv, &stdout, &stderr); code != c.code {
			t.Errorf("%q: exit code %d, want %d", c.args, code, c.code)
		}
		for _, s := range []struct{ got, want string }{{stdout.String(), c.stdout}, {stderr.String(), c.stderr}} {
			if !strings.Contains(s.got, s.want) || s.want == "" && s.got != "" {
				t.Errorf("%q: %q, want %q", c.args, s.got, s.want)
			}
		}
	}
}
