// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install installs the CNI plugin and its configuration on a node, and removes
// everything that Alioth created there.
package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
)

const (
	// conflistVersion is for runtimes that read one version only: containerd 1.7 refuses
	// results of a newer one. The others take the newest of cniVersions.
	conflistVersion = "1.0.0"
	// versionWithin is the limit of the plugin's time to tell its version.
	versionWithin = 5 * time.Second
)

// Plugin copies the plugin binary into the container runtime's
// directory. A runtime that starts the plugin meanwhile gets the old one or the
// new one, never a part. A link with the name of the IPAM plugin refers to the same file.
func Plugin(binary, dir string) error {
	source, err := os.Open(binary)
	if err != nil {
		return fmt.Errorf("open plugin binary: %w", err)
	}
	defer source.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of CNI plugins: %w", err)
	}
	err = writeAtomically(filepath.Join(dir, cnidir.PluginName), 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
	if err != nil {
		return err
	}
	return linkAtomically(cnidir.PluginName, filepath.Join(dir, ipamconf.Type))
}

// linkAtomically replaces a file by a symbolic link. A remainder of an interrupted call is
// replaced too.
func linkAtomically(target, path string) error {
	fresh := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := removeFiles(fresh); err != nil {
		return err
	}
	if err := os.Symlink(target, fresh); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(fmt.Errorf("link %s: %w", path, err), removeFiles(fresh))
	}
	return nil
}

// PluginVersion returns the output of --version of the plugin in a directory, or the reason of
// its absence.
func PluginVersion(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, cnidir.PluginName), "--version").Output()
	if err != nil {
		return quote.Message("the plugin does not tell its version: " + err.Error())
	}
	return quote.Message(strings.TrimSpace(string(out)))
}

// WriteConflist makes the container runtime use the plugin.
func WriteConflist(dir, socket string) error {
	// Runtimes pass ports of the node only to plugins with this capability.
	plugin := map[string]any{"type": cnidir.PluginName, "capabilities": map[string]bool{"portMappings": true}}
	if socket != cniapi.DefaultSocket {
		plugin["socket"] = socket
	}
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": conflistVersion, "cniVersions": cniapi.Versions(), "name": "alioth", "plugins": []any{plugin},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode CNI configuration: %w", err)
	}
	path := filepath.Join(dir, cnidir.ConflistName)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text)+"\n" {
		return nil // without a write, runtimes that watch the directory do not reload it
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of CNI configurations: %w", err)
	}
	return writeAtomically(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// ConfigurationBefore returns the name of a CNI configuration that the runtime
// would use instead of Alioth's, because it sorts before; or "".
func ConfigurationBefore(dir string) (string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return "", fmt.Errorf("list CNI configurations: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() >= cnidir.ConflistName {
			break
		}
		if cnidir.IsConfiguration(entry.Name()) {
			return entry.Name(), nil
		}
	}
	return "", nil
}

// writeAtomically replaces a file by a completely written one. The name of the
// unfinished file starts with a dot, so runtimes ignore it.
func writeAtomically(path string, mode os.FileMode, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(file.Name()))
		}
	}()
	err = errors.Join(write(file), file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// removeFiles removes the files of a list that exist.
func removeFiles(paths ...string) error {
	var failures []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failures = append(failures, fmt.Errorf("remove file: %w", err))
		}
	}
	return errors.Join(failures...)
}
