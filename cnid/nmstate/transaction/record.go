// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// Record is an open transaction, as it is on disk.
type Record struct {
	// ID is unique among transactions of a host.
	ID string `json:"id"`
	// Boot identifies the boot of the host at the time of its begin
	// (/proc/sys/kernel/random/boot_id).
	Boot string `json:"boot"`
	// PID is the process that applies it, and Started when that process began, in ticks
	// since the boot: a number of a process may come again.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	// Guard is the number of the guard's process, and GuardStarted its time of start.
	Guard        int    `json:"guard,omitempty"`
	GuardStarted uint64 `json:"guardStarted,omitempty"`
	// Begun and Deadline are of the wall clock.
	Begun    time.Time `json:"begun"`
	Deadline time.Time `json:"deadline"`
	// Uptime is how long the host was up when it began. Nobody sets that clock, so lifetimes go
	// by it.
	Uptime time.Duration `json:"uptime"`
	// Waiting: all is applied, and somebody has to commit before the deadline.
	Waiting bool `json:"waiting"`
	// Done: it is committed. What remains is to write down Committed.
	Done bool `json:"done"`
	// Before is the state before the first change, in full.
	Before *document.State `json:"before"`
	// Touched are the interfaces that the transaction changes.
	Touched []string `json:"touched"`
	// Area lists the objects that the transaction may change. Image holds the state of the
	// kernel in the area before, and ResolverFile the file of the resolver. An undo restores
	// these.
	Area         snapshot.Area    `json:"area"`
	Image        *snapshot.Image  `json:"image"`
	ResolverFile *resolvconf.Copy `json:"resolverFile,omitempty"`
	// Automatic are the automatic settings before, nil in a record of an earlier release.
	Automatic *automatic.Wanted `json:"automatic,omitempty"`
	// Committed holds the state that a commit writes down as the host's committed state.
	Committed *document.State `json:"committed"`
	// Devices holds the facts about virtual devices that a commit writes down.
	Devices *Devices `json:"devices,omitempty"`
}

// Routing are routes and rules.
type Routing struct {
	Routes []document.Route     `json:"routes,omitempty"`
	Rules  []document.RouteRule `json:"rules,omitempty"`
}

// routingOf returns the routes and rules in the configuration of a state.
func routingOf(s *document.State) (r Routing) {
	if s.Routes != nil {
		r.Routes = s.Routes.Config
	}
	if s.RouteRules != nil {
		r.Rules = s.RouteRules.Config
	}
	return r
}

// without returns the routes and rules that others do not have.
func (r Routing) without(others Routing) Routing {
	return Routing{Routes: without(r.Routes, others.Routes), Rules: without(r.Rules, others.Rules)}
}

// and returns the routes and rules of both.
func (r Routing) and(others Routing) Routing {
	return Routing{Routes: slices.Concat(r.Routes, others.Routes), Rules: slices.Concat(r.Rules, others.Rules)}
}

// without returns the entries of a list that are not among others.
func without[T any](list, others []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(one T) bool {
		return slices.ContainsFunc(others, func(other T) bool { return reflect.DeepEqual(one, other) })
	})
}

// Names of files in a Manager's folder.
const (
	recordFile    = "transaction.json"
	committedFile = "committed.json"
	lockFile      = "lock"
)

// folder has the files of a Manager.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// record returns the open transaction, nil without one.
func (f folder) record() (*Record, error) {
	var r Record
	found, err := f.read(recordFile, &r)
	if err == nil && r.Image != nil {
		err = r.Image.Check()
	}
	if err != nil || !found {
		return nil, err
	}
	return &r, nil
}

func (f folder) putRecord(r *Record) error { return f.write(recordFile, r) }

func (f folder) removeRecord() error { return durable.Remove(f.path(recordFile)) }

// committed returns the committed state, which is empty before the first commit.
func (f folder) committed() (*document.State, error) {
	var s document.State
	_, err := f.read(committedFile, &s)
	return &s, err
}

func (f folder) putCommitted(s *document.State) error { return f.write(committedFile, s) }

func (f folder) read(name string, into any) (found bool, err error) {
	text, err := os.ReadFile(f.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", f.path(name), err)
	}
	return true, nil
}

func (f folder) write(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path(name), err)
	}
	file, err := durable.Create(f.path(name), append(text, '\n'))
	if err != nil {
		return err
	}
	return file.Close()
}

// uptime returns how long the host is up.
func uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // Every kernel has that clock.
	return time.Duration(now.Nano())
}

// BootID returns the identity of the host's boot.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the identity of this boot: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
