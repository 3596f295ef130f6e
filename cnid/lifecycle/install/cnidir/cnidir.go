// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cnidir has the names of Alioth's files in a node's directories of CNI plugins and
// configurations. It is pure: the checks of a node before an installation use it, and so does
// the installation.
package cnidir

import (
	"path/filepath"
	"slices"

	"github.com/alioth-net/alioth/api/ipamconf"
)

const (
	// ConflistName is the CNI configuration file that makes the container
	// runtime use Alioth.
	ConflistName = "05-alioth.conflist"
	// PluginName is the CNI plugin binary, and the type in the configuration.
	PluginName = "alioth"
)

// IsConfiguration reports whether container runtimes read a file of this name.
func IsConfiguration(name string) bool {
	return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(name)) // as libcni
}

// Programs returns the names of Alioth's files in the directory of CNI plugins.
func Programs() []string { return []string{PluginName, ipamconf.Type} }
