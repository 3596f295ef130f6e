// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package delegatetest is a CNI plugin for tests that fails in all ways. A test program is
// that plugin itself where it is started through a link with the name of the plugin.
package delegatetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Prefix starts the names of the plugins.
const Prefix = "fake"

// Reference is the directory of the reference plugins, where Debian's package
// containernetworking-plugins has them.
const Reference = "/usr/lib/cni"

// Conf is the part of a configuration that the plugin reads.
type Conf struct {
	CNIVersion string          `json:"cniVersion"`
	Type       string          `json:"type"`
	PrevResult json.RawMessage `json:"prevResult,omitempty"`
	// Log is a file for one Call for each run, in JSON, one to a line.
	Log string `json:"log"`
	// Do has the behaviours by command; a command that is missing succeeds.
	Do map[string]Behaviour `json:"do,omitempty"`
	// As is the name of the interface in its result; "" for CNI_IFNAME.
	As string `json:"as,omitempty"`
	// Result is the plugin's output for an ADD; nil for a result with one interface.
	Result json.RawMessage `json:"result,omitempty"`
}

// Behaviour is the behaviour of a plugin.
type Behaviour string

// Ways to fail.
const (
	Hang     Behaviour = "hang"     // forever, with a child that hangs too
	Orphan   Behaviour = "orphan"   // succeeds, but its child holds the output
	Garbage  Behaviour = "garbage"  // succeeds and prints no JSON
	Nothing  Behaviour = "nothing"  // succeeds and prints nothing
	Silent   Behaviour = "silent"   // fails and prints nothing
	Grumble  Behaviour = "grumble"  // fails and prints to its standard error
	Confused Behaviour = "confused" // fails and prints no JSON
	Error    Behaviour = "error"    // fails as CNI requires, with code 11
	Unknown  Behaviour = "unknown"  // fails with code 3
	Flood    Behaviour = "flood"    // prints without an end
)

// Call is one run of the plugin.
type Call struct {
	Type  string
	Env   []string
	Stdin json.RawMessage
	// Pids are the process IDs of the plugin and its child.
	Pids []int
}

// Command returns the command of CNI.
func (c Call) Command() string { return c.Var("CNI_COMMAND") }

// Var returns a variable of the environment.
func (c Call) Var(name string) string {
	for _, pair := range c.Env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// Main carries out the command if the program has a plugin's name, and ends it.
func Main() {
	if strings.HasPrefix(filepath.Base(os.Args[0]), Prefix) {
		os.Exit(run())
	}
}

func run() int {
	if len(os.Args) > 1 { // the child
		hang()
	}
	stdin, err := io.ReadAll(os.Stdin)
	var conf Conf
	if err = errors.Join(err, json.Unmarshal(stdin, &conf)); err != nil {
		return failed(err)
	}
	call := Call{Type: conf.Type, Env: os.Environ(), Stdin: stdin, Pids: []int{os.Getpid()}}
	behaviour := conf.Do[call.Command()]
	if behaviour == Hang || behaviour == Orphan {
		self, err := os.Executable()
		child := exec.CommandContext(context.Background(), self)
		child.Args = []string{os.Args[0], "child"}
		child.Stdout = os.Stdout
		if err = errors.Join(err, child.Start()); err != nil {
			return failed(err)
		}
		call.Pids = append(call.Pids, child.Process.Pid)
	}
	if err := record(conf.Log, call); err != nil {
		return failed(err)
	}
	return act(behaviour, conf, call)
}

func hang() {
	for {
		_ = unix.Pause() // returns after a signal that does not end the process
	}
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 77
}

func record(path string, call Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func act(behaviour Behaviour, conf Conf, call Call) int {
	switch behaviour {
	case Hang:
		hang()
	case Garbage:
		fmt.Fprint(os.Stdout, "hello")
		return 0
	case Nothing:
		return 0
	case Silent:
		return 3
	case Grumble:
		fmt.Fprintln(os.Stderr, "the disk is full")
		return 1
	case Confused:
		fmt.Fprint(os.Stdout, "panic: oh")
		return 2
	case Error:
		fmt.Fprint(os.Stdout, `{"cniVersion":"1.0.0","code":11,"msg":"try again","details":"the pool is empty"}`)
		return 1
	case Unknown:
		fmt.Fprint(os.Stdout, `{"code":3,"msg":"no such container"}`)
		return 1
	case Flood:
		for {
			if _, err := fmt.Fprintln(os.Stdout, strings.Repeat("x", 4096)); err != nil {
				return 1
			}
		}
	}
	if call.Command() == "ADD" {
		fmt.Fprintf(os.Stdout, "%s", resultOf(conf, call))
	}
	return 0
}

func resultOf(conf Conf, call Call) []byte {
	if conf.Result != nil {
		return conf.Result
	}
	name := conf.As
	if name == "" {
		name = call.Var("CNI_IFNAME")
	}
	return fmt.Appendf(
		nil,
		`{"cniVersion":%q,"interfaces":[{"name":%q,"sandbox":%q}],"x-by":%q}`,
		conf.CNIVersion,
		name,
		call.Var("CNI_NETNS"),
		conf.Type,
	)
}

// Install makes plugins of these names in dir from the running test program.
func Install(t testing.TB, dir string, names ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Link(self, filepath.Join(dir, name)); err == nil {
			continue
		}
		text, err := os.ReadFile(self) // on another file system
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// Calls returns the runs in a log, in their order.
func Calls(t testing.TB, log string) []Call {
	t.Helper()
	file, err := os.Open(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var calls []Call
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var call Call
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}
