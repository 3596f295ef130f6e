// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconf

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/cniconf"
)

// fileName is a plain name of a file: no path, not hidden.
var fileName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$`)

// own reports whether a type is a program of Alioth.
func own(name string) bool {
	name = strings.ToLower(name)
	return name == "alioth" || strings.HasPrefix(name, "alioth-")
}

// checkTypes compares the types of all plugins with the granted types: the plugins of the list,
// of "ipam", and the plugins that a plugin itself runs ("delegate", "delegates").
func (l *list) checkTypes(r Request) error {
	for i, p := range l.Plugins {
		if err := l.checkType(l.Field(i, "type"), p.Kind(), "plugin", r.Allowed.Plugins); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(p)) {
			var value any
			if err := json.Unmarshal(p[key], &value); err != nil {
				return l.Wrong(l.Field(i, key), err.Error(), "correct the JSON")
			}
			if err := l.checkValue(l.Field(i, key), key, value, r.Allowed); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkValue looks for plugins in the value of a key.
func (l *list) checkValue(field, key string, value any, allowed Allowed) error {
	switch key {
	case "ipam":
		if err := l.checkUsed(field, value, "IPAM plugin", allowed.IPAM); err != nil {
			return err
		}
	case "delegate", "delegates":
		if err := l.checkUsed(field, value, "plugin", allowed.Plugins); err != nil {
			return err
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := l.checkValue(cniconf.Join(field, key), key, v[key], allowed); err != nil {
				return err
			}
		}
	case []any:
		for i, element := range v {
			if err := l.checkValue(fmt.Sprintf("%s[%d]", field, i), "", element, allowed); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkUsed checks the type in the configuration of a plugin that another one runs. It may
// be missing: the plugin then runs none, or the one of its author.
func (l *list) checkUsed(field string, value any, role string, allowed []string) error {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		for i, element := range v {
			if err := l.checkUsed(fmt.Sprintf("%s[%d]", field, i), element, role, allowed); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		kind, ok := v["type"]
		if !ok || kind == "" {
			return nil
		}
		name, ok := kind.(string)
		if !ok {
			return l.Wrong(field+".type", "it is not a string", "name the "+role)
		}
		return l.checkType(field+".type", name, role, allowed)
	}
	return l.Wrong(field, "it is not an object", "write the configuration of the "+role)
}

func (l *list) checkType(field, name, role string, allowed []string) error {
	switch {
	case !fileName.MatchString(name):
		return l.Wrong(field, fmt.Sprintf("%.80q is not a plain file name", name),
			"use the name of the "+role+"'s file in the directory of CNI plugins")
	case own(name):
		return l.Wrong(field, fmt.Sprintf("%q is a program of Alioth", name), "use a network of Alioth instead of its plugin")
	case !slices.Contains(allowed, name):
		return l.Wrong(field, fmt.Sprintf("the %s %q is not granted to this network", role, name),
			"ask the cluster's administrator to add it to the grant, or use one of ["+strings.Join(allowed, " ")+"]")
	}
	return nil
}
