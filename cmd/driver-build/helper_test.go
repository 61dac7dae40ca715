package main

import (
	"context"
	"maps"
	"os"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

// asProgram makes the test binary behave as driver-build, for tests that need a process.
const asProgram = "DRIVER_BUILD_TEST_MAIN"

func TestMain(m *testing.M) {
	chroot.Init() // doctor tries whether this program can compile in a chroot
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

const (
	oldDriver = imagetest.OldDriver
	newDriver = imagetest.NewDriver
)

type result = commandtest.Result

// user calls driver-build with all its commands.
type user struct{ *commandtest.User }

func newUser(t *testing.T) *user {
	t.Helper()
	return &user{commandtest.New(t, newRootCmd)}
}

// on is the same user on another day.
func (u *user) on(day string) *user {
	other := *u.User
	other.Env = maps.Clone(u.Env)
	other.Env[commandtest.Day] = day
	return &user{&other}
}

func call(ctx context.Context, t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	return commandtest.Call(ctx, t, newRootCmd, env, args...)
}
