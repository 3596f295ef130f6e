// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// Copy is a file as it was, to the byte.
type Copy struct {
	// Missing: the file was missing. Link is the target of a symbolic link, "" for a file.
	Missing bool   `json:"missing,omitempty"`
	Link    string `json:"link,omitempty"`
	Text    []byte `json:"text,omitempty"`
	// Mode are its permissions, and User and Group its owners.
	Mode  fs.FileMode `json:"mode"`
	User  int         `json:"user"`
	Group int         `json:"group"`
}

// Copy returns what the file is.
func (f File) Copy() (c Copy, err error) {
	info, err := os.Lstat(f.name())
	if errors.Is(err, fs.ErrNotExist) {
		return Copy{Missing: true}, nil
	}
	switch {
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		c.Link, err = os.Readlink(f.name())
	default:
		c.Mode = info.Mode().Perm()
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			c.User, c.Group = int(owner.Uid), int(owner.Gid)
		}
		c.Text, err = os.ReadFile(f.name())
	}
	if err != nil {
		return c, fmt.Errorf("keep the resolver's configuration: %w", err)
	}
	return c, nil
}

// Restore makes the file what it was, in one step. Without a difference it does nothing.
func (f File) Restore(c Copy) error {
	now, err := f.Copy()
	if err != nil {
		return err
	}
	if now.equal(c) {
		return nil
	}
	if c.Missing {
		err = os.Remove(f.name())
	} else {
		err = f.replace(c)
	}
	if err != nil {
		return fmt.Errorf("restore the resolver's configuration: %w", err)
	}
	return nil
}

func (c Copy) equal(other Copy) bool {
	return bytes.Equal(c.Text, other.Text) && c.Missing == other.Missing && c.Link == other.Link && c.Mode == other.Mode &&
		c.User == other.User &&
		c.Group == other.Group
}

func (f File) replace(c Copy) error {
	fresh := f.name() + ".alioth"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var err error
	if c.Link != "" {
		err = os.Symlink(c.Link, fresh)
	} else if err = os.WriteFile(fresh, c.Text, c.Mode); err == nil {
		// The mask of the process may have taken permissions.
		err = errors.Join(os.Chmod(fresh, c.Mode), os.Chown(fresh, c.User, c.Group))
	}
	if err == nil {
		err = os.Rename(fresh, f.name())
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return nil
}

// restoreOriginal restores the file of another program that Write has replaced, if r is the
// configuration in it. A present file of another program becomes the original.
func (f File) restoreOriginal(r document.Resolver) (restored bool, err error) {
	if f.original == "" {
		return false, nil
	}
	now, err := f.Copy()
	if err != nil {
		return false, err
	}
	if now.Missing || !bytes.HasPrefix(now.Text, []byte(heading)) {
		return false, f.keepOriginal(now)
	}
	text, err := os.ReadFile(f.original)
	if errors.Is(err, fs.ErrNotExist) { // an earlier version wrote the file
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the former configuration of the resolver: %w", err)
	}
	was, readable := decode(text)
	if !readable || !Equal(parse(was.Text), r) {
		return false, nil
	}
	return true, f.Restore(was)
}

// decode returns a copy. A broken one is not readable: then the configuration is written as any
// other.
func decode(text []byte) (c Copy, readable bool) {
	err := json.Unmarshal(text, &c)
	return c, err == nil
}

func (f File) keepOriginal(c Copy) error {
	text, err := json.Marshal(c)
	if err == nil {
		var file *os.File
		if file, err = durable.Create(f.original, text); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("keep the former configuration of the resolver: %w", err)
	}
	return nil
}
