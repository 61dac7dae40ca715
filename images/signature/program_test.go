package signature

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// TestMain is also the program that the tests sign with, under the name of what it does.
func TestMain(m *testing.M) {
	if mode, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "signer-"); ok {
		if err := play(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(mode string) error {
	switch mode {
	case "fails":
		return errors.New("the key is locked")
	case "hangs":
		time.Sleep(time.Hour)
	case "floods":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return err
			}
		}
	}
	message, err := os.ReadFile("/dev/stdin")
	if err != nil {
		return err
	}
	key, err := NewKeySigner(keys()["rsa"])
	if err != nil {
		return err
	}
	signature, err := key.Sign(context.Background(), message)
	switch mode {
	case "base64":
		fmt.Println(base64.StdEncoding.EncodeToString(signature))
	case "raw":
		_, err = os.Stdout.Write(signature)
	case "much":
		_, err = os.Stdout.WriteString(strings.Repeat("x", 10*maxOutput))
	case "short":
		fmt.Println("no")
	}
	return err
}

// program makes the test's own program one with this behaviour.
func program(t *testing.T, mode string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "signer-"+mode)
	require.NoError(t, os.Symlink(require.Value(os.Executable())(t), path))
	return path
}

func TestProgram(t *testing.T) {
	t.Parallel()
	public := keys()["rsa"].Public()
	for _, mode := range []string{"raw", "base64"} {
		made := require.Value(Sign(t.Context(), request(Both), Program{Path: program(t, mode), Key: public}))(t)
		assert.Samef(t, manifests(sign(t, request(Both), "rsa")), manifests(made), "%s", mode)
	}
	made := require.Value(Sign(t.Context(), request(Legacy), Program{Path: program(t, "raw")}))(t)
	assert.Equal(t, 2, len(made))
	for name, c := range map[string]struct {
		p    Program
		want string
	}{
		"fails":      {Program{Path: program(t, "fails")}, `it said "the key is locked"`},
		"hangs":      {Program{Path: program(t, "hangs"), Time: 200 * time.Millisecond}, "it took more than 200ms"},
		"floods":     {Program{Path: program(t, "floods"), Time: 300 * time.Millisecond}, "it took more than"},
		"much":       {Program{Path: program(t, "much")}, "more than 16384 bytes"},
		"short":      {Program{Path: program(t, "short")}, "which is no signature"},
		"nothing":    {Program{Path: program(t, "nothing")}, "it gave 0 bytes"},
		"other key":  {Program{Path: program(t, "raw"), Key: keys()["p256"].Public()}, "does not fit its public key"},
		"no program": {Program{Path: "/none"}, "sign with the program /none"},
	} {
		assert.ErrorContainsf(t, assert.Err(Sign(t.Context(), request(Legacy), c.p)), c.want, "%s", name)
	}
}
