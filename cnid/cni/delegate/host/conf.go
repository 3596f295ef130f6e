// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/cniconf"
)

// maxFiles is the number of files of a directory that are read in search of a configuration.
const maxFiles = 256

// ConfDir is a directory of CNI configurations. Links in it are not followed: whoever may
// write a name of a network must not choose which file of the node is read.
type ConfDir struct {
	// Path is that below Root.
	Path string
	Root Root
}

// ConfFile is a file with a CNI configuration.
type ConfFile struct {
	// Path is the path of the file, for messages.
	Path string
	Text []byte
}

// Named returns the file whose configuration has that name, in the order of NPWG 1.3,
// section 4.1: first files .conflist, then .conf and .json, each in the order of their
// names. A file that can't be read counts as one of another network; if none is found, the
// error names it.
func (d ConfDir) Named(name string) (ConfFile, error) {
	dir, err := d.open()
	if err != nil {
		return ConfFile{}, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return ConfFile{}, fmt.Errorf("list CNI configurations in %s: %w", d.Path, err)
	}
	slices.Sort(names)
	var broken []string
	for _, extensions := range [][]string{{".conflist"}, {".conf", ".json"}} {
		for _, file := range names {
			if !slices.Contains(extensions, filepath.Ext(file)) {
				continue
			}
			text, err := d.read(dir, file)
			var conf struct {
				Name string `json:"name"`
			}
			if err == nil {
				err = json.Unmarshal(text, &conf)
			}
			if err != nil {
				broken = append(broken, fmt.Sprintf("%s: %v", file, err))
			} else if conf.Name == name {
				return ConfFile{Path: filepath.Join(d.Path, file), Text: text}, nil
			}
		}
	}
	return ConfFile{}, d.missing(fmt.Sprintf("no CNI configuration with the name %q", name), broken)
}

// networkID is a NetworkID that may be a part of a file's name.
var networkID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$`)

// OfNetworkID returns the file <id>.conflist or else <id>.conf, which is the configuration
// of a network of DANM with a static type.
func (d ConfDir) OfNetworkID(id string) (ConfFile, error) {
	if !networkID.MatchString(id) {
		return ConfFile{}, fmt.Errorf(
			"the NetworkID %.80q can't be a file name; use letters, digits and the characters _ . - only",
			id,
		)
	}
	dir, err := d.open()
	if err != nil {
		return ConfFile{}, err
	}
	defer dir.Close()
	for _, extension := range []string{".conflist", ".conf"} {
		text, err := d.read(dir, id+extension)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return ConfFile{}, fmt.Errorf("read the configuration of NetworkID %s in %s: %w", id, d.Path, err)
		}
		return ConfFile{Path: filepath.Join(d.Path, id+extension), Text: text}, nil
	}
	return ConfFile{}, d.missing(fmt.Sprintf("neither %s.conflist nor %s.conf", id, id), nil)
}

func (d ConfDir) missing(what string, broken []string) error {
	err := fmt.Errorf("%s in %s on this node; create the file there", what, d.Path)
	if len(broken) > 0 {
		err = fmt.Errorf("%w (files that can't be read: %s)", err, strings.Join(broken, "; "))
	}
	return err
}

func (d ConfDir) open() (*os.File, error) {
	dir, err := d.Root.open(d.Path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open the directory of CNI configurations %s: %w", d.Path, err)
	}
	return dir, nil
}

// read returns the content of a regular file of the directory, not through a link.
func (d ConfDir) read(dir *os.File, name string) ([]byte, error) {
	file, err := openat2(dir, name, &unix.OpenHow{
		// A pipe without a writer would block the daemon.
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a symbolic link, which is not followed; replace it by the file")
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readRegular(file)
}

// readRegular returns the content of a file, if it is a regular one that is not too large.
func readRegular(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > cniconf.MaxText {
		return nil, fmt.Errorf("it is not a regular file of at most %d bytes", cniconf.MaxText)
	}
	return io.ReadAll(io.LimitReader(file, cniconf.MaxText))
}
