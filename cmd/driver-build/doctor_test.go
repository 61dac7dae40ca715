package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	matrix := u.Path("own.yaml")
	require.NoError(t, os.WriteFile(matrix, []byte(u.Matrix()), 0o600))
	args := []string{"doctor", "--matrix", matrix, "--os", "ubuntu16.04"}
	states := func(r result) map[string]string {
		found := map[string]string{}
		for _, f := range commandtest.Items[session.Finding](t, r, "doctor.schema.json") {
			found[strings.Replace(f.Question, u.Host, "HOST", 1)] = f.State
		}
		return found
	}

	r := u.Run(t, append(args, "-o", "json", "--repository", u.Host+"/site/driver")...).Want(t, 0)
	found := states(r)
	for _, question := range []string{"cache", "programs amd64", "bases of HOST", "repository"} {
		assert.Equalf(t, "ok", found[question], "%s: %s", question, r.Stdout)
	}
	r = u.Run(t, append(args, "--repository", "localhost:1/x")...).Want(t, 3, "1 of ")
	for line := range strings.SplitSeq(strings.TrimSuffix(r.Stdout, "\n"), "\n") {
		if fault := strings.HasPrefix(line, "FAULT"); fault != strings.Contains(line, " repository ") {
			t.Errorf("%s", line)
		}
	}
	assert.Contains(t, r.Stdout, "; to do: log in with driver-build login localhost:1")
	assert.Equal(t, "", states(u.Run(t, append(args, "-o", "json", "--offline")...))["bases of HOST"])

	u.Cache = matrix // a file
	u.Run(t, args...).Want(t, 2, "open the cache", "give another folder with --cache")
}

// TestAsk: a question without an answer ends after 20 seconds, and what only some builds need is a warning.
func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		absent := func(context.Context) (string, error) { return "", errors.Join(errors.New("one"), errors.New("two")) }
		assert.Same(t, []session.Finding{
			{Question: "bad", State: "fault", Detail: "one; two", Fix: "do"},
			{Question: "rare", State: "warning", Detail: "one; two", Fix: "do"},
			{Question: "hangs", State: "fault", Detail: "no answer within 20s", Fix: "do"},
		}, ask(t.Context(), []question{
			{"bad", "do", false, absent}, {"rare", "do", true, absent},
			{"hangs", "do", false, func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }},
		}))
	})
}
