// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package automatic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// Names of files in the folder of a Store.
const (
	wantedFile = "automatic.json"
	knownFile  = "clients.json"
	lockFile   = "automatic.lock"
	servedFile = "clients.lock"
)

// Store has the files of a host. Processes may use it at the same time.
type Store struct{ dir, boot string }

// NewStore returns the Store of a folder, which is there. boot is the identity of the host's
// boot.
func NewStore(dir, boot string) *Store { return &Store{dir, boot} }

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// Dir is the folder of the files.
func (s *Store) Dir() string { return s.dir }

// Concerns reports whether a path leads to the file of wanted settings.
func Concerns(path string) bool { return filepath.Base(path) == wantedFile }

// Wanted returns the wanted settings of this boot of the host. For an earlier boot it returns the
// settings of the resolver alone: the resolver's file outlives a boot, with the entries of
// leases.
func (s *Store) Wanted() (*Wanted, error) {
	w := &Wanted{Boot: s.boot}
	if err := s.read(wantedFile, w); err != nil {
		return nil, err
	}
	if w.Boot != s.boot {
		return &Wanted{Boot: s.boot, Static: w.Static, File: w.File, Former: w.Static != nil}, nil
	}
	return w, nil
}

// Change changes the wanted settings. Meanwhile no process gives an interface a lease.
func (s *Store) Change(f func(*Wanted) error) error {
	return s.With(func(w *Wanted) error {
		before := *w
		if err := f(w); err != nil || reflect.DeepEqual(before, *w) {
			return err
		}
		return s.write(wantedFile, w)
	})
}

// With calls a function with the wanted settings, which do not change meanwhile.
func (s *Store) With(f func(*Wanted) error) error {
	file, err := os.OpenFile(s.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the automatic settings: %w", err)
	}
	defer func() { _ = file.Close() }()
	// Whoever has the lock writes files and talks to the kernel, and waits for nobody.
	if err := ignoringSignals(func() error { return unix.Flock(int(file.Fd()), unix.LOCK_EX) }); err != nil {
		return fmt.Errorf("lock the automatic settings: %w", err)
	}
	w, err := s.Wanted()
	if err != nil {
		return err
	}
	return f(w)
}

func ignoringSignals(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Known has the facts about the clients, and about routers that advertise name servers.
type Known struct {
	Clients []Client
	Routers []Router `json:",omitempty"`
}

// HasResolver reports whether the resolver has something of it.
func (k Known) HasResolver() bool {
	return len(k.Routers) > 0 ||
		slices.ContainsFunc(k.Clients, func(c Client) bool { return len(c.DNS)+len(c.Search) > 0 })
}

// Client has the facts about one client.
type Client struct {
	dhcp.Key
	// Bound tells that there is a lease. DNS and Search are those that the resolver uses.
	Bound  bool
	DNS    []string `json:",omitempty"`
	Search []string `json:",omitempty"`
	// Problem says what keeps the client from a lease, since when; "" for nothing.
	Problem string    `json:",omitempty"`
	Since   time.Time `json:",omitzero"`
}

// Known returns the facts about the clients. The facts of a process that has ended may be
// outdated, except for name servers.
func (s *Store) Known() (k Known, err error) { return k, s.read(knownFile, &k) }

// PutKnown writes it, unless it is there.
func (s *Store) PutKnown(k Known) error {
	text, err := encoded(k)
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path(knownFile), err)
	}
	// The texts are compared: the times in k lack the monotonic clock after they were read.
	if now, err := os.ReadFile(s.path(knownFile)); err == nil && bytes.Equal(now, text) {
		return nil
	}
	return s.write(knownFile, k)
}

// Serve makes the calling process the one that runs the clients, until release. It returns
// false if another one does.
func (s *Store) Serve() (release func(), served bool, err error) {
	file, err := os.OpenFile(s.path(servedFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock the DHCP clients: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return func() { _ = file.Close() }, true, nil
	}
	_ = file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("lock the DHCP clients: %w", err)
}

// Served reports whether a process runs the clients.
func (s *Store) Served() (bool, error) {
	release, free, err := s.Serve()
	if err != nil || !free {
		return !free, err
	}
	release()
	return false, nil
}

func (s *Store) read(name string, into any) error {
	text, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path(name), err)
	}
	return nil
}

func (s *Store) write(name string, value any) error {
	text, err := encoded(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path(name), err)
	}
	file, err := durable.Create(s.path(name), text)
	if err != nil {
		return err
	}
	return file.Close()
}

// encoded returns a value as a file has it.
func encoded(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(text, '\n'), err
}
