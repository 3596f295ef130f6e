// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// PluginError is the failure of a plugin.
type PluginError struct {
	// Plugin is its type, Command the command of CNI.
	Plugin, Command string
	// Code is a code of CNI 1.1, section "Error", 0 if the plugin reported none.
	Code uint
	// Msg and Details are the plugin's text, or how it failed without one.
	Msg, Details string
}

// Error names plugin, command, text and code.
func (e *PluginError) Error() string {
	text := fmt.Sprintf("CNI plugin %s: %s failed: %s", e.Plugin, e.Command, e.Msg)
	if e.Details != "" {
		text += "; " + e.Details
	}
	if e.Code != 0 {
		text += fmt.Sprintf(" (code %d)", e.Code)
	}
	return text
}

// same reports whether a command failed in the same way as another one.
func (e *PluginError) same(o *PluginError) bool {
	return e.Plugin == o.Plugin && e.Code == o.Code && e.Msg == o.Msg && e.Details == o.Details
}

// ErrIfName reports that a plugin made an interface with another name than requested.
var ErrIfName = errors.New("the plugin ignores CNI_IFNAME")

// pluginError returns the error that a plugin reported on its standard output, or else the failure
// of its process.
func pluginError(p program, failure error, stdout, stderr []byte) error {
	e := &PluginError{Plugin: p.kind, Command: p.command}
	var reported types.Error
	var exited *exec.ExitError
	switch {
	case !errors.As(failure, &exited):
		e.Msg = failure.Error()
	case json.Unmarshal(stdout, &reported) == nil && (reported.Msg != "" || reported.Code != 0):
		e.Code, e.Msg, e.Details = reported.Code, quote.Bounded(
			reported.Msg,
			quote.MaxQuoted,
		), quote.Bounded(
			reported.Details,
			quote.MaxQuoted,
		)
		if e.Msg == "" {
			e.Msg = "no error message: " + failure.Error()
		}
	case len(stdout) > 0:
		e.Msg = fmt.Sprintf("%v, and its output is not an error of CNI: %s", failure, quoted(stdout))
	default:
		e.Msg = "no error message: " + failure.Error()
	}
	if e.Details == "" && len(stderr) > 0 && e.Code == 0 {
		e.Details = "on its standard error: " + quoted(stderr)
	}
	return e
}

func quoted(text []byte) string {
	return quote.Text(strings.TrimSpace(string(text)))
}

// printed returns the end of an error message: the text of a plugin's standard error.
func printed(stderr *bounded) string {
	if len(stderr.Bytes()) == 0 {
		return ""
	}
	return "; on its standard error: " + quoted(stderr.Bytes())
}

// otherName returns an ErrIfName if a result has interfaces in the pod but not the
// requested one. Plugins with a fixed name do this, for example chains with flannel.
func otherName(result *ifdriver.Result, ifName string, kinds []string) error {
	if _, ok := result.InPod(ifName); ok {
		return nil
	}
	var names []string
	for _, iface := range result.Interfaces {
		if iface.Sandbox != "" {
			names = append(names, iface.Name)
		}
	}
	if len(names) == 0 {
		return nil // the version or the plugin reports none
	}
	return fmt.Errorf(
		"%w: CNI plugin %s made interface %s in the pod, not %s; use it for the interface of that name only, or another plugin",
		ErrIfName,
		strings.Join(kinds, ", "),
		quote.Names(names),
		ifName,
	)
}
