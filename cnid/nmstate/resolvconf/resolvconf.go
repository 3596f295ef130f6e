// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolvconf reads and replaces the configuration of a host's resolver
// (resolv.conf(5)).
package resolvconf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/inroot"
)

// DefaultPath is where resolvers of all C libraries look.
const DefaultPath = "/etc/resolv.conf"

// MaxServers is how many name servers the C library asks (MAXNS).
const MaxServers = 3

// heading is the first line of files that Write makes.
const heading = "# Written by Alioth from the node's network state.\n"

// ErrManaged reports a file that a program of the host writes; it would undo what others write.
var ErrManaged = errors.New("is managed by another program of the host")

// File is a resolv.conf.
type File struct{ root, path, original string }

// New returns the file at a path of the file system at root: "/" on the host itself,
// /proc/1/root in a container.
func New(root, path string) File { return File{root: root, path: path} }

// KeepingAt returns the file. Its Write keeps the file of another program in a file of this
// process, and restores it to the byte when its configuration is written again.
func (f File) KeepingAt(original string) File {
	f.original = original
	return f
}

// name is the file as this process names it. It may be a link with an absolute path, which
// is the host's.
func (f File) name() string { return filepath.Join(f.root, f.path) }

// Read returns what the file has: each list, also an empty one. A missing file is empty.
func (f File) Read() (document.Resolver, error) {
	file, err := inroot.Open(f.root, f.path)
	if errors.Is(err, os.ErrNotExist) {
		return parse(nil), nil
	}
	if err != nil {
		return document.Resolver{}, fmt.Errorf("read the resolver's configuration: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(file)
	if err != nil {
		return document.Resolver{}, fmt.Errorf("read the resolver's configuration: %w", err)
	}
	return parse(text), nil
}

func parse(text []byte) document.Resolver {
	r := document.Resolver{Server: []string{}, Search: []string{}, Options: []string{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			r.Server = append(r.Server, words[1])
		case "search", "domain": // the last one counts
			r.Search = words[1:]
		case "options":
			r.Options = append(r.Options, words[1:]...)
		}
	}
	return r
}

// Write replaces the file in one step. A file that another program manages is an
// ErrManaged.
func (f File) Write(r document.Resolver) error {
	now, err := f.Read()
	if err == nil && Equal(now, r) {
		return nil
	}
	if err := f.Writable(); err != nil {
		return err
	}
	if restored, err := f.restoreOriginal(r); restored || err != nil {
		return err
	}
	fresh := f.name() + ".alioth"
	if err := os.WriteFile(fresh, format(r), 0o644); err != nil {
		return fmt.Errorf("write the resolver's configuration: %w", err)
	}
	if err := os.Rename(fresh, f.name()); err != nil {
		return errors.Join(fmt.Errorf("write the resolver's configuration: %w", err), os.Remove(fresh))
	}
	return nil
}

// Writable returns an ErrManaged if the file is a link, as systemd-resolved and
// resolvconf(8) make it, and an error if its folder is missing.
func (f File) Writable() error {
	info, err := os.Lstat(f.name())
	if errors.Is(err, os.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(f.name()))
		return err
	}
	if err != nil {
		return fmt.Errorf("look at the resolver's configuration: %w", err)
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return nil
	}
	target, err := os.Readlink(f.name())
	if err != nil {
		return fmt.Errorf("look at the resolver's configuration: %w", err)
	}
	return fmt.Errorf(
		"%s %w: it is a link to %s; configure that program, or replace the link by a file",
		f.path,
		ErrManaged,
		target,
	)
}

// Equal reports whether two configurations are the same.
func Equal(a, b document.Resolver) bool {
	return slices.Equal(a.Server, b.Server) && slices.Equal(a.Search, b.Search) && slices.Equal(a.Options, b.Options)
}

func format(r document.Resolver) []byte {
	var b bytes.Buffer
	b.WriteString(heading)
	if len(r.Search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(r.Search, " "))
	}
	for _, server := range r.Server {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(r.Options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(r.Options, " "))
	}
	return b.Bytes()
}
