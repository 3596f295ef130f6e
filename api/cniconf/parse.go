// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniconf

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// MaxText is the longest text of a configuration, in bytes.
	MaxText = 64 << 10
	// maxPlugins is the largest number of plugins in a list.
	maxPlugins = 16
	// maxName is the longest name of a network; plugins use it as the name of a file.
	maxName = 200
)

// Versions returns the versions of the CNI specification that a configuration may have,
// oldest first.
func Versions() []string {
	return []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
}

// List is the parsed configuration of one plugin or of a list of plugins.
type List struct {
	// Where names the source in messages, for example
	// "NetworkAttachmentDefinition customer-a/storage, spec.config".
	Where string
	// Name is the name of the network, Version one of Versions.
	Name, Version string
	DisableCheck  bool
	Plugins       []Plugin
	// single: the text is the configuration of one plugin, without a list.
	single bool
}

// Plugin is the configuration of one plugin. Its values keep the author's text, because
// a number may be larger than Go's float64 can hold.
type Plugin map[string]json.RawMessage

// Kind returns the type of the plugin, "" if the type is not a string.
func (p Plugin) Kind() string {
	var kind string
	if err := json.Unmarshal(p["type"], &kind); err != nil {
		return ""
	}
	return kind
}

// Set puts a value into the configuration of a plugin. The types of values here can't
// fail to be encoded.
func (p Plugin) Set(key string, value any) error {
	raw, err := json.Marshal(value)
	if err == nil {
		p[key] = raw
	}
	return err
}

// Field returns the path of a key of a plugin, for messages.
func (l *List) Field(i int, key string) string {
	if l.single {
		return key
	}
	return fmt.Sprintf("plugins[%d].%s", i, key)
}

// networkName is a valid name of a network (CNI 1.1, section "Network configuration
// format").
var networkName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// Parse reads a configuration or a list of configurations. where names the source in messages,
// and name is the name of the network where the text has none. All its errors are an *Error.
func Parse(where, name string, text []byte) (*List, error) {
	l := &List{Where: where, Name: name}
	if err := l.scan(text, "", 0); err != nil {
		return nil, err
	}
	var top Plugin
	if err := json.Unmarshal(text, &top); err != nil || top == nil {
		return nil, l.Wrong(
			"",
			"the configuration is not a JSON object",
			`write {"cniVersion": ..., "plugins": [...]} or {"cniVersion": ..., "type": ...}`,
		)
	}
	for _, step := range []func(Plugin) error{l.parseName, l.parseVersion, l.parseDisableCheck, l.parsePlugins} {
		if err := step(top); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *List) parseName(top Plugin) error {
	if raw, ok := top["name"]; ok {
		var name *string
		if err := json.Unmarshal(raw, &name); err != nil || name == nil {
			return l.Wrong("name", "it is not a string", "write the network's name in quotes, or remove the key")
		}
		if *name != "" {
			l.Name = *name
		}
	}
	if !networkName.MatchString(l.Name) || len(l.Name) > maxName {
		return l.Wrong(
			"name",
			fmt.Sprintf("%.80q is not a name of a CNI network", l.Name),
			fmt.Sprintf(
				"start it with a letter or digit, use these and the characters _ . - only, and at most %d of them",
				maxName,
			),
		)
	}
	return nil
}

// parseVersion selects the highest known version of "cniVersion" and "cniVersions". A
// configuration without a version has the first one.
func (l *List) parseVersion(top Plugin) error {
	var offered []string
	if raw, ok := top["cniVersion"]; ok {
		var version *string
		if err := json.Unmarshal(raw, &version); err != nil || version == nil {
			return l.Wrong("cniVersion", "it is not a string", `write it as "1.0.0"`)
		}
		offered = append(offered, *version)
	}
	if raw, ok := top["cniVersions"]; ok {
		var versions []string
		if err := json.Unmarshal(raw, &versions); err != nil {
			return l.Wrong("cniVersions", "it is not a list of strings", `write it as ["0.4.0", "1.0.0"]`)
		}
		offered = append(offered, versions...)
	}
	known := Versions()
	best := -1
	for _, version := range offered {
		best = max(best, slices.Index(known, version))
	}
	switch {
	case len(offered) == 0 || len(offered) == 1 && offered[0] == "":
		best = 0
	case best < 0:
		return l.Wrong("cniVersion", fmt.Sprintf("%.80q is unknown", offered), "use one of "+strings.Join(known, ", "))
	}
	l.Version = known[best]
	return nil
}

func (l *List) parseDisableCheck(top Plugin) error {
	raw, ok := top["disableCheck"]
	if !ok {
		return nil
	}
	switch strings.ToLower(string(raw)) {
	case "true", `"true"`:
		l.DisableCheck = true
	case "false", `"false"`:
	default:
		return l.Wrong("disableCheck", "it is neither true nor false", "correct it")
	}
	return nil
}

func (l *List) parsePlugins(top Plugin) error {
	raw, isList := top["plugins"]
	_, isSingle := top["type"]
	switch {
	case isList && isSingle:
		return l.Wrong("", "the configuration has both plugins and type", "remove one of them")
	case isSingle:
		l.single, l.Plugins = true, []Plugin{top}
	case isList:
		if err := json.Unmarshal(raw, &l.Plugins); err != nil {
			return l.Wrong("plugins", "it is not a list of objects", "write one object for each plugin")
		}
	}
	if len(l.Plugins) == 0 || len(l.Plugins) > maxPlugins {
		return l.Wrong("plugins", fmt.Sprintf("the list has %d plugins", len(l.Plugins)),
			fmt.Sprintf("write 1 to %d; plugins in files of their own are not read", maxPlugins))
	}
	for i, p := range l.Plugins {
		if err := l.checkKeys(i, p); err != nil {
			return err
		}
	}
	return nil
}

// reserved are keys of a plugin's configuration that the specification reserves for runtimes,
// beside "args" and the keys that start with "cni.dev/".
var reserved = []string{"prevResult", "runtimeConfig"}

func (l *List) checkKeys(i int, p Plugin) error {
	if p == nil {
		return l.Wrong(
			strings.TrimSuffix(l.Field(i, ""), "."),
			"it is null",
			"write an object with the plugin's configuration",
		)
	}
	for _, key := range slices.Sorted(maps.Keys(p)) { // so that a refusal stays the same
		if slices.Contains(reserved, key) || strings.HasPrefix(key, "cni.dev/") {
			return l.Wrong(l.Field(i, key), "the key is reserved for runtimes", "remove it")
		}
	}
	if p.Kind() == "" {
		return l.Wrong(l.Field(i, "type"), "it is missing or not a string", "name the plugin")
	}
	return nil
}
