// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Ledger records the changes of labs on the host for as long as any of them is up. Several labs
// share the host's folders and kernel settings: the first one to come changes them and the last one
// to go puts them back. (Removing a folder would take away what another lab has mounted on it.)
type Ledger struct {
	// Dir is the folder with the record; it must not survive a reboot.
	Dir string
}

// DefaultLedger returns the ledger that all labs of a machine share.
func DefaultLedger() Ledger { return Ledger{Dir: "/run"} }

// loans is the content of a ledger.
type loans struct {
	// Labs are the labs that are up.
	Labs []string `json:"labs"`
	// Dirs are the folders that exist because of them, parents first.
	Dirs []string `json:"dirs"`
	// Settings are the kernel settings from before the first of them.
	Settings map[string]string `json:"settings"`
}

// Borrow makes sure that dirs exist and that the kernel settings that a
// kubelet changes are recorded, and enters lab as a user of both.
func (l Ledger) Borrow(lab string, dirs []string) error {
	return l.change(func(book *loans) error {
		if len(book.Labs) == 0 {
			book.Settings = Settings()
		}
		if !slices.Contains(book.Labs, lab) {
			book.Labs = append(book.Labs, lab)
		}
		// The folders to be made are recorded first, or a crash in between would leave
		// them behind.
		for _, dir := range missingDirs(dirs) {
			if !slices.Contains(book.Dirs, dir) {
				book.Dirs = append(book.Dirs, dir)
			}
		}
		if err := l.write(*book); err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("make a mount point: %w", err)
			}
		}
		return nil
	})
}

// Return removes lab, and labs that inUse does not know any more, from the users. The last user
// puts everything back, except for folders that hold files by now.
func (l Ledger) Return(lab string, inUse func(lab string) bool) error {
	return l.change(func(book *loans) error {
		book.Labs = slices.DeleteFunc(book.Labs, func(other string) bool { return other == lab || !inUse(other) })
		if len(book.Labs) > 0 {
			return nil
		}
		err := errors.Join(removeDirs(book.Dirs), restoreSettings(book.Settings))
		if err == nil {
			*book = loans{}
		}
		return err
	})
}

// change runs fn on the ledger's content with all other labs locked out, and writes the changed
// content back. An empty ledger has no file.
func (l Ledger) change(fn func(*loans) error) error {
	dir, err := os.Open(l.Dir)
	if err != nil {
		return fmt.Errorf("open the folder of the labs' ledger: %w", err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock the labs' ledger: %w", err)
	}
	var book loans
	raw, err := os.ReadFile(l.file())
	if err == nil {
		err = json.Unmarshal(raw, &book)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the labs' ledger %s: %w", l.file(), err)
	}
	return errors.Join(fn(&book), l.write(book))
}

func (l Ledger) write(book loans) error {
	if len(book.Labs)+len(book.Dirs) == 0 {
		if err := os.Remove(l.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the labs' ledger: %w", err)
		}
		return nil
	}
	raw, err := json.MarshalIndent(book, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the labs' ledger: %w", err)
	}
	if err := os.WriteFile(l.file()+".new", raw, 0o600); err != nil {
		return fmt.Errorf("write the labs' ledger: %w", err)
	}
	if err := os.Rename(l.file()+".new", l.file()); err != nil {
		return fmt.Errorf("replace the labs' ledger: %w", err)
	}
	return nil
}

func (l Ledger) file() string { return filepath.Join(l.Dir, "alioth-labs.json") }

// missingDirs returns which of dirs and their parents do not exist, parents
// first.
func missingDirs(dirs []string) []string {
	var missing []string
	for _, dir := range dirs {
		var chain []string
		for d := dir; ; d = filepath.Dir(d) {
			if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			chain = append([]string{d}, chain...)
		}
		missing = append(missing, chain...)
	}
	return missing
}

func removeDirs(dirs []string) error {
	var errs []error
	for i := len(dirs) - 1; i >= 0; i-- {
		err := unix.Rmdir(dirs[i])
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) {
			errs = append(errs, fmt.Errorf("remove the mount point %s: %w", dirs[i], err))
		}
	}
	return errors.Join(errs...)
}
