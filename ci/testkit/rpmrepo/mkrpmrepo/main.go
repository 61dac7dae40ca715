// Command mkrpmrepo makes the rpm repositories and the base image of a system for tests, and serves them.
//
//	go run ./ci/testkit/rpmrepo/mkrpmrepo --system rocky9 [--kernel-root DIR --kernel RELEASE]
//		[--listen 127.0.0.1:8080]
//
// It prints the base as driver-build's --base takes it, the folder with a copy of the base's root, the folder
// that is served and the release of the newest kernel. With --listen it then serves until it is stopped;
// clients use it as http_proxy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/rpmrepo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkrpmrepo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("mkrpmrepo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	system := flags.String("system", "", "one of "+strings.Join(rpmrepo.Systems(), ", "))
	root := flags.String("kernel-root", "", "folder with the unpacked headers of a Debian kernel")
	release := flags.String("kernel", "", "its release: 6.1.0-56-amd64")
	listen := flags.String("listen", "", "address to serve at")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *system == "" || flags.NArg() > 0 || (*root == "") != (*release == "") {
		return errors.New("--system is needed, and --kernel with --kernel-root; see --help")
	}
	o := rpmrepo.Options{System: *system}
	if *root != "" {
		o.Kernel = &rpmrepo.Kernel{Root: *root, Release: *release}
	}
	r, err := rpmrepo.Make(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n%s\n%s\n%s\n", r.Base(), r.Root, r.WWW(), r.Release)
	if *listen == "" {
		return nil
	}
	server := &http.Server{Addr: *listen, Handler: r.Handler(), ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
