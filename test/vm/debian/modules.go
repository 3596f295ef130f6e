// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Files returns the modules' files in the order of loading, each after the modules that it depends
// on. A built-in module needs no file; a module that this kernel does not have is an error.
func (k Kernel) Files(modules []string) ([]string, error) {
	dep, err := os.ReadFile(filepath.Join(k.Modules, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("read what modules depend on: %w", err)
	}
	builtin, err := os.ReadFile(filepath.Join(k.Modules, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("read which modules are built in: %w", err)
	}
	files, err := order(modules, string(dep), string(builtin))
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", filepath.Base(k.Modules), err)
	}
	for i, file := range files {
		files[i] = filepath.Join(k.Modules, file)
	}
	return files, nil
}

// order reads modules.dep(5): a file, and behind the colon all modules that it needs. The last of
// them has to load first.
func order(modules []string, dep, builtin string) ([]string, error) {
	needs := map[string][]string{}
	for line := range strings.Lines(dep) {
		file, rest, _ := strings.Cut(line, ":")
		needs[moduleName(file)] = append([]string{file}, strings.Fields(rest)...)
	}
	for file := range strings.Lines(builtin) {
		needs[moduleName(file)] = nil
	}
	var files []string
	var missing []error
	for _, module := range modules {
		chain, ok := needs[module]
		if !ok {
			missing = append(missing, fmt.Errorf("no module %s", module))
		}
		for _, file := range slices.Backward(chain) {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files, errors.Join(missing...)
}

// moduleName returns the name that lsmod shows for the module in a file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(strings.TrimSpace(file)), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}
