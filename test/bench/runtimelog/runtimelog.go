// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimelog reads from the logs of containerd how long calls of network plugins
// took.
package runtimelog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/node"
)

// callBegins and callEnds match the messages that containerd logs around a call of the network
// plugins for a new sandbox, at level debug.
var (
	callBegins = regexp.MustCompile(`^time="([^"]+)" level=debug msg="begin cni setup".* podsandboxid=([0-9a-f]+)`)
	callEnds   = regexp.MustCompile(`^time="([^"]+)" level=debug msg="cni result: .* podsandboxid=([0-9a-f]+)`)
)

// debugLevel is the part of containerd's configuration for that.
const debugLevel = "\n[debug]\n  level = 'debug'\n"

// longestLine bounds a line of containerd's log, in bytes: specifications of
// containers are among them.
const longestLine = 16 << 20

// Logs are the logs of a lab's containerds. Their times of the plugins are the same measure for any
// CNI.
type Logs struct {
	lab    *cluster.Cluster
	folder string
	// read is up to where each file has been read, in bytes.
	read map[string]int64
}

// New has the containerds of the lab in folder log plugin calls; restore
// ends that.
func New(ctx context.Context, lab *cluster.Cluster, folder string) (logs *Logs, restore func() error, err error) {
	logs = &Logs{lab: lab, folder: folder, read: map[string]int64{}}
	originals := map[string][]byte{}
	restore = func() error {
		var errs []error
		for name, original := range originals {
			errs = append(errs, logs.configure(context.WithoutCancel(ctx), name, original))
		}
		return errors.Join(errs...)
	}
	for _, n := range lab.Nodes() {
		original, err := os.ReadFile(logs.configuration(n.Name))
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("read containerd's configuration: %w", err), restore())
		}
		originals[n.Name] = original
		if err := logs.configure(ctx, n.Name, append(slices.Clone(original), debugLevel...)); err != nil {
			return nil, nil, errors.Join(err, restore())
		}
	}
	_, err = logs.Calls()
	if err != nil {
		return nil, nil, errors.Join(err, restore())
	}
	return logs, restore, nil
}

func (l *Logs) configuration(nodeName string) string {
	return l.machine(nodeName).Path("containerd.toml")
}

func (l *Logs) machine(nodeName string) node.Machine {
	return node.Machine{
		Name: nodeName,
		Dir:  filepath.Join(l.folder, "nodes", nodeName),
		Logs: filepath.Join(l.folder, "logs"),
	}
}

// configure restarts a node's containerd with a configuration. Containers go on.
func (l *Logs) configure(ctx context.Context, nodeName string, text []byte) error {
	if err := os.WriteFile(l.configuration(nodeName), text, 0o644); err != nil {
		return fmt.Errorf("write containerd's configuration: %w", err)
	}
	return l.lab.RestartProcess(ctx, nodeName+"/containerd")
}

// Calls returns how long each plugin call took that has ended since the last time.
func (l *Logs) Calls() ([]time.Duration, error) {
	var all []time.Duration
	for _, n := range l.lab.Nodes() {
		took, err := l.callsOf(l.machine(n.Name).LogFile("containerd"))
		if err != nil {
			return nil, fmt.Errorf("read containerd's log: %w", err)
		}
		all = append(all, took...)
	}
	return all, nil
}

func (l *Logs) callsOf(path string) ([]time.Duration, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(l.read[path], io.SeekStart); err != nil {
		return nil, err
	}
	took, err := pluginCalls(file)
	if err != nil {
		return nil, err
	}
	l.read[path], err = file.Seek(0, io.SeekCurrent)
	return took, err
}

// pluginCalls returns how long the plugin calls took that begin and succeed in a log
// of containerd.
func pluginCalls(log io.Reader) ([]time.Duration, error) {
	var all []time.Duration
	began := map[string]time.Time{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		if match := callBegins.FindSubmatch(lines.Bytes()); match != nil {
			at, err := time.Parse(time.RFC3339Nano, string(match[1]))
			if err != nil {
				return nil, err
			}
			began[string(match[2])] = at
		}
		match := callEnds.FindSubmatch(lines.Bytes())
		if match == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, string(match[1]))
		if err != nil {
			return nil, err
		}
		if start, ok := began[string(match[2])]; ok {
			all = append(all, at.Sub(start))
		}
	}
	return all, lines.Err()
}
