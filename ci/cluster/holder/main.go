// Program holder keeps files open, as a program that uses a GPU keeps its device files open, until a signal
// ends it. It does nothing else: a fake GPU cannot compute.
//
// usage: holder [-wait] [-ignore-term] FILE...
//
// -wait: wait for files that do not exist yet. -ignore-term: ignore SIGTERM, as programs that are slow to
// stop.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
}

func run() error {
	wait := flag.Bool("wait", false, "wait for files that do not exist yet")
	ignore := flag.Bool("ignore-term", false, "go on at SIGTERM")
	flag.Parse()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	for _, path := range flag.Args() {
		for {
			// The file stays open until the process ends.
			_, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
			if err == nil {
				fmt.Println("holding", path)
				break
			}
			if !*wait || !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("open %s: %w", path, err)
			}
			select {
			case <-signals:
				return nil
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	for s := range signals {
		if s == syscall.SIGTERM && *ignore {
			fmt.Println("ignoring", s)
			continue
		}
		fmt.Println("ending:", s)
		return nil
	}
	return nil
}
