// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// pins are the versions and checksums of one build.
type pins struct {
	// modFile is a file in the folder of the program, like a go.mod.
	modFile string
	// version is the version of Program.Module.
	version string
}

// sumFile returns the file with the checksums, as the go command names it.
func (p pins) sumFile() string { return strings.TrimSuffix(p.modFile, ".mod") + ".sum" }

// pins returns the pins of p's minor version. A part of the version, such as 2, is enough if only
// one version has it.
func (b *Builder) pins(p Program) (pins, error) {
	all, err := b.allPins(p)
	if err != nil {
		return pins{}, err
	}
	var found []pins
	have := make([]string, 0, len(all))
	for _, pins := range all {
		have = append(have, pins.version)
		if p.Minor == "" && pins.modFile == "go.mod" || p.Minor != "" && strings.HasPrefix(pins.version, "v"+p.Minor+".") {
			found = append(found, pins)
		}
	}
	if len(found) != 1 {
		return pins{}, fmt.Errorf(
			"test/cluster/%s pins %d versions %q of %s, want one; use a minor version such as 1.35 of: %s",
			p.Name,
			len(found),
			p.Minor,
			p.Module,
			strings.Join(have, ", "),
		)
	}
	return found[0], nil
}

// Version returns the version of p that Ensure builds.
func (b *Builder) Version(p Program) (string, error) {
	pins, err := b.pins(p)
	return pins.version, err
}

// allPins returns the pins that the folder of p has for its module, by the names of the files.
func (b *Builder) allPins(p Program) ([]pins, error) {
	files, err := filepath.Glob(filepath.Join(b.moduleDir(p), "*.mod"))
	if err != nil {
		return nil, fmt.Errorf("list the modules of %s: %w", p.Name, err)
	}
	slices.Sort(files)
	var all []pins
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the module of %s: %w", p.Name, err)
		}
		version, err := requiredVersion(file, raw, p.Module)
		if err != nil {
			return nil, err
		}
		if version != "" {
			all = append(all, pins{modFile: filepath.Base(file), version: version})
		}
	}
	return all, nil
}

// requiredVersion returns the version of module that the text of a go.mod requires; "" if it
// requires none.
func requiredVersion(file string, gomod []byte, module string) (string, error) {
	f, err := modfile.ParseLax(file, gomod, nil)
	if err != nil {
		return "", fmt.Errorf("parse the go.mod that requires %s: %w", module, err)
	}
	for _, r := range f.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", nil
}
