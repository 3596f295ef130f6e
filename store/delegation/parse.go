// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegation

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

// list is a parsed configuration.
type list struct {
	where, name, version string
	disableCheck         bool
	plugins              []plugin
	// single: the text is the configuration of one plugin, without a list.
	single bool
	// link is taken from the first plugin, nil without one.
	link *Link
	// unserved and plain are those of Config.
	unserved []string
	plain    Plain
}

// plugin is the configuration of one plugin. Its values keep the author's text, because
// a number may be larger than Go's float64 can hold.
type plugin map[string]json.RawMessage

// kind returns the type of the plugin, "" if that is no string.
func (p plugin) kind() string {
	var kind string
	if err := json.Unmarshal(p["type"], &kind); err != nil {
		return ""
	}
	return kind
}

func (l *list) field(i int, key string) string {
	if l.single {
		return key
	}
	return fmt.Sprintf("plugins[%d].%s", i, key)
}

// networkName is a valid name of a network (CNI 1.1, section "Network configuration
// format").
var networkName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

func parse(r Request) (*list, error) {
	l := &list{where: r.Where}
	if err := l.scan(r.Text, "", 0); err != nil {
		return nil, err
	}
	var top plugin
	if err := json.Unmarshal(r.Text, &top); err != nil || top == nil {
		return nil, l.wrong("", "the configuration is not a JSON object", `write {"cniVersion": ..., "plugins": [...]} or {"cniVersion": ..., "type": ...}`)
	}
	for _, step := range []func(plugin, Request) error{l.parseName, l.parseVersion, l.parseDisableCheck, l.parsePlugins} {
		if err := step(top, r); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *list) parseName(top plugin, r Request) error {
	l.name = r.Name
	if raw, ok := top["name"]; ok {
		var name *string
		if err := json.Unmarshal(raw, &name); err != nil || name == nil {
			return l.wrong("name", "it is not a string", "write the network's name in quotes, or remove the key")
		}
		if *name != "" {
			l.name = *name
		}
	}
	if !networkName.MatchString(l.name) || len(l.name) > maxName {
		return l.wrong("name", fmt.Sprintf("%.80q is not a name of a CNI network", l.name),
			fmt.Sprintf("start it with a letter or digit, use these and the characters _ . - only, and at most %d of them", maxName))
	}
	return nil
}

// parseVersion selects the highest known version of "cniVersion" and "cniVersions". A
// configuration without a version has the first one.
func (l *list) parseVersion(top plugin, _ Request) error {
	var offered []string
	if raw, ok := top["cniVersion"]; ok {
		var version *string
		if err := json.Unmarshal(raw, &version); err != nil || version == nil {
			return l.wrong("cniVersion", "it is not a string", `write it as "1.0.0"`)
		}
		offered = append(offered, *version)
	}
	if raw, ok := top["cniVersions"]; ok {
		var versions []string
		if err := json.Unmarshal(raw, &versions); err != nil {
			return l.wrong("cniVersions", "it is not a list of strings", `write it as ["0.4.0", "1.0.0"]`)
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
		return l.wrong("cniVersion", fmt.Sprintf("%.80q is unknown", offered), "use one of "+strings.Join(known, ", "))
	}
	l.version = known[best]
	return nil
}

func (l *list) parseDisableCheck(top plugin, _ Request) error {
	raw, ok := top["disableCheck"]
	if !ok {
		return nil
	}
	switch strings.ToLower(string(raw)) {
	case "true", `"true"`:
		l.disableCheck = true
	case "false", `"false"`:
	default:
		return l.wrong("disableCheck", "it is neither true nor false", "correct it")
	}
	return nil
}

func (l *list) parsePlugins(top plugin, r Request) error {
	raw, isList := top["plugins"]
	_, isSingle := top["type"]
	switch {
	case isList && isSingle:
		return l.wrong("", "the configuration has both plugins and type", "remove one of them")
	case isSingle:
		l.single, l.plugins = true, []plugin{top}
	case isList:
		if err := json.Unmarshal(raw, &l.plugins); err != nil {
			return l.wrong("plugins", "it is not a list of objects", "write one object for each plugin")
		}
	}
	if len(l.plugins) == 0 || len(l.plugins) > maxPlugins {
		return l.wrong("plugins", fmt.Sprintf("the list has %d plugins", len(l.plugins)),
			fmt.Sprintf("write 1 to %d; plugins in files of their own are not read", maxPlugins))
	}
	for i, p := range l.plugins {
		if err := l.checkKeys(i, p); err != nil {
			return err
		}
	}
	if first := l.plugins[0].kind(); r.Type != "" && !strings.EqualFold(first, r.Type) {
		return l.wrong(l.field(0, "type"), fmt.Sprintf("the first plugin is %.80q, and the network's NetworkType is %q", first, r.Type),
			"change one of them")
	}
	return nil
}

// reserved are the keys of a plugin's configuration that the specification reserves for
// runtimes, beside "args" and those that start with "cni.dev/".
var reserved = []string{"prevResult", "runtimeConfig"}

func (l *list) checkKeys(i int, p plugin) error {
	if p == nil {
		return l.wrong(strings.TrimSuffix(l.field(i, ""), "."), "it is null", "write an object with the plugin's configuration")
	}
	for _, key := range slices.Sorted(maps.Keys(p)) { // so that a refusal stays the same
		if slices.Contains(reserved, key) || strings.HasPrefix(key, "cni.dev/") {
			return l.wrong(l.field(i, key), "the key is reserved for runtimes", "remove it")
		}
	}
	if p.kind() == "" {
		return l.wrong(l.field(i, "type"), "it is missing or not a string", "name the plugin")
	}
	return nil
}
