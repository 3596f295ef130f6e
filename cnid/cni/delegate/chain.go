// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/alioth-net/alioth/api/cniconf"
)

// chain is a list of configurations. The values keep their text.
type chain struct {
	CNIVersion   string                       `json:"cniVersion"`
	Name         string                       `json:"name"`
	DisableCheck bool                         `json:"disableCheck"`
	Plugins      []map[string]json.RawMessage `json:"plugins"`
}

func readChain(conf []byte) (chain, error) {
	var c chain
	if err := json.Unmarshal(conf, &c); err != nil {
		return c, fmt.Errorf("read network configuration list: %w", err)
	}
	if !slices.Contains(cniconf.Versions(), c.CNIVersion) {
		return c, fmt.Errorf("network configuration list has the version %.80q", c.CNIVersion)
	}
	if err := utils.ValidateNetworkName(c.Name); err != nil {
		return c, fmt.Errorf("network configuration list: %w", err)
	}
	for i := range c.Plugins {
		if c.kind(i) == "" {
			return c, fmt.Errorf("network configuration list: plugin %d has no type", i)
		}
	}
	if len(c.Plugins) == 0 {
		return c, errors.New("network configuration list has no plugins")
	}
	return c, nil
}

// kind returns the type of a plugin.
func (c chain) kind(i int) string {
	var kind string
	if err := json.Unmarshal(c.Plugins[i]["type"], &kind); err != nil {
		return ""
	}
	return kind
}

func (c chain) types() []string {
	var list []string
	for i := range c.Plugins {
		list = append(list, c.kind(i))
	}
	return list
}

// hasCheck reports whether the version has CHECK, and a previous result in DEL.
func (c chain) hasCheck() bool { return c.atLeast("0.4.0") }

func (c chain) atLeast(version string) bool {
	known := cniconf.Versions()
	return slices.Index(known, c.CNIVersion) >= slices.Index(known, version)
}

// stdin returns the configuration of one plugin: with name and version of the list, and the
// previous result where there is one.
func (c chain) stdin(i int, prev json.RawMessage) ([]byte, error) {
	conf := map[string]json.RawMessage{}
	for key, value := range c.Plugins[i] {
		conf[key] = value
	}
	for key, value := range map[string]string{"name": c.Name, "cniVersion": c.CNIVersion} {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		conf[key] = raw
	}
	if len(prev) > 0 {
		conf["prevResult"] = prev
	}
	return json.Marshal(conf)
}

func (d *Delegates) addOne(ctx context.Context, c chain, i int, k Kept) (json.RawMessage, error) {
	out, err := d.command(ctx, "ADD", c, i, k)
	if err != nil {
		return nil, err
	}
	result, err := c.result(out)
	if err != nil {
		return nil, &PluginError{Plugin: c.kind(i), Command: "ADD", Msg: err.Error()}
	}
	return result, nil
}

func (d *Delegates) delOne(ctx context.Context, c chain, i int, k Kept) error {
	if !c.hasCheck() {
		k.RawResult = nil
	}
	if !d.Alive(k) {
		// The path may lead to the namespace of another pod now.
		k.NetnsPath = ""
	}
	_, err := d.command(ctx, "DEL", c, i, k)
	var failed *PluginError
	if errors.As(err, &failed) && failed.Code == types.ErrUnknownContainer {
		return nil // "the runtime does not need to perform any cleanup"
	}
	return err
}

// command runs one plugin and returns its output.
func (d *Delegates) command(ctx context.Context, command string, c chain, i int, k Kept) ([]byte, error) {
	kind := c.kind(i)
	stdin, err := c.stdin(i, k.RawResult)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of CNI plugin %s: %w", kind, err)
	}
	path, err := d.cfg.Root.FindProgram(kind, d.cfg.Plugins)
	if err != nil {
		return nil, &PluginError{Plugin: kind, Command: command, Msg: err.Error()}
	}
	return d.run(
		ctx,
		program{kind: kind, command: command, path: path, stdin: stdin, env: d.environment(command, k.Attachment)},
	)
}
