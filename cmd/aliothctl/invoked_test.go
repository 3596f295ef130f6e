// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/api/version"
)

// printed runs a command line, the binary's name included, and returns its output.
func printed(t *testing.T, line ...string) string {
	t.Helper()
	cmd := newCommand(line...)
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%v: %v", line, err)
	}
	return out.String()
}

func TestHelp_InvokedAsKubectlPlugin_OwnNameShown(t *testing.T) {
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"/usr/local/bin/aliothctl", "trace", "--help"}, "Usage:\n  aliothctl trace NAMESPACE/POD"},
		{[]string{"/usr/local/bin/kubectl-alioth", "trace", "--help"}, "Usage:\n  kubectl alioth trace NAMESPACE/POD"},
		{[]string{"kubectl-alioth", "trace", "--help"}, "  kubectl alioth trace shop/cart"},
		{[]string{"kubectl-alioth", "drops", "--help"}, "'kubectl alioth status' count"},
		{[]string{"kubectl-alioth", "map"}, "kubectl alioth map [command]"},
	} {
		got := printed(t, c.line...)
		if !strings.Contains(got, c.want) || strings.Contains(c.line[0], "kubectl") && strings.Contains(got, "aliothctl") {
			t.Errorf("%v: want %q alone in\n%s", c.line, c.want, got)
		}
	}
}

// Errors and outputs repeat texts of nodes and tenants.
func TestTerminal_ControlCharactersOfOthers_Replaced(t *testing.T) {
	var stdout, stderr strings.Builder
	cmd := onTerminal(newCommand("aliothctl", "fails"), &stdout, &stderr)
	cmd.AddCommand(&cobra.Command{Use: "fails", RunE: func(cmd *cobra.Command, _ []string) error {
		cmd.PrintErrln("on \x1b[2Jstderr")
		if _, err := cmd.OutOrStdout().Write([]byte("on \x1b[2Jstdout\n")); err != nil {
			return err
		}
		return errors.New("node1: the \x1b[2Jwords of a node\xff")
	}})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Fatal("the command does not fail")
	}
	if want := "on ?[2Jstdout\n"; stdout.String() != want {
		t.Errorf("the output is %q, want %q", stdout.String(), want)
	}
	if want := "on ?[2Jstderr\nError: node1: the ?[2Jwords of a node?\n"; stderr.String() != want {
		t.Errorf("the errors are %q, want %q", stderr.String(), want)
	}
}

// TestVersionFlag_EachCommand_VersionShown also runs the command in the place of nmstatectl.
func TestVersionFlag_EachCommand_VersionShown(t *testing.T) {
	for _, c := range []struct {
		line []string
		name string
	}{
		{[]string{"aliothctl", "--version"}, "aliothctl"},
		{[]string{"aliothctl", "state", "--version"}, "aliothctl"},
		{[]string{"aliothctl", "state", "-v"}, "aliothctl"},
		{[]string{"kubectl-alioth", "--version"}, "kubectl alioth"},
	} {
		if got, want := printed(t, c.line...), c.name+" version "+version.Get().String()+"\n"; got != want {
			t.Errorf("%v: %q, want %q", c.line, got, want)
		}
	}
}

func TestCompletion_KubectlPlugin_WordsCompleted(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"ver"}, []string{"verify"}},
		{[]string{"verify", "--output", ""}, []string{"text", "json"}},
	} {
		var names []string
		for line := range strings.Lines(printed(t, append([]string{"/usr/local/bin/kubectl_complete-alioth"}, c.words...)...)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			names = append(names, name)
		}
		if !slices.Equal(names[:min(len(c.want), len(names))], c.want) {
			t.Errorf("%q is completed to %q, want %q first", c.words, names, c.want)
		}
	}
	if script := printed(t, "kubectl-alioth", "completion", "bash"); !strings.Contains(script, "__start_kubectl-alioth") {
		t.Error("the completion script is for another name than kubectl-alioth")
	}
}

// The former name has to stay until the next release.
func TestPolicyHandle_FormerName_NewNameTold(t *testing.T) {
	for binary, want := range map[string]string{
		"aliothctl":      "aliothctl policy handle is deprecated: its name is aliothctl nodenetwork policy handle now\n",
		"kubectl-alioth": "kubectl alioth policy handle is deprecated: its name is kubectl alioth nodenetwork policy handle now\n",
	} {
		cmd := newCommand(binary, "policy", "handle")
		var stdout, stderr strings.Builder
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "set --once") || !strings.HasPrefix(stderr.String(), want) || stdout.String() != "" {
			t.Errorf("%s: %v, printed %q and the errors\n%s", binary, err, stdout.String(), stderr.String())
		}
		if strings.Contains(printed(t, binary, "--help"), "\n  policy ") {
			t.Errorf("the help of %s has the former name", binary)
		}
	}
}

// TestCommandGroup_UnknownCommand_Refused visits every command that has others below it.
func TestCommandGroup_UnknownCommand_Refused(t *testing.T) {
	groups := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() {
			return
		}
		groups++
		line := append(strings.Fields(cmd.CommandPath())[1:], "no-such-command")
		if out, err := run(t, line...); err == nil || !strings.Contains(err.Error(), `unknown command "no-such-command"`) {
			t.Errorf("%v: got %v and\n%s", line, err, out)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newCommand("aliothctl"))
	if groups < 4 {
		t.Errorf("only %d commands have others below them", groups)
	}
}

func TestCommand_WrongArguments_UsageShown(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"trace", "usage: aliothctl trace NAMESPACE/POD IP[:PORT]"},
		{"release customer-a", "usage: aliothctl release VPC|NETWORK IP"},
		{"verify extra", "usage: aliothctl verify"},
		{"map dump extra", "usage: aliothctl map dump"},
	} {
		if _, err := run(t, strings.Fields(c.line)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in: %v", c.line, c.want, err)
		}
	}
}

func TestNodeCommand_SocketMissing_NodeFlagHinted(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, line := range []string{"status --socket " + none + " --bpf-dir " + none, "dump --socket " + none} {
		if _, err := run(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), "--node NAME") {
			t.Errorf("%s: want a hint at --node in: %v", line, err)
		}
	}
}
