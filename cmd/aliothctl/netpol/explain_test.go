// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
	"github.com/alioth-net/alioth/test/docs/pages"
)

// explained runs explain and returns its output.
func explained(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	return ran(t, stdin, append([]string{"explain"}, args...)...)
}

// ran runs a command of netpol and returns its output.
func ran(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := Command()
	cmd.SilenceUsage = true // as the program does
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(t.Output())
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// page returns the blocks of a language in the page about policies.
func page(t *testing.T, language string) (texts []string) {
	t.Helper()
	const path = "../../../docs/tenants/policies.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range pages.Parse("docs/tenants/policies.md", text).Blocks {
		if block.Language == language {
			texts = append(texts, block.Text.Text)
		}
	}
	return texts
}

// TestPage_OfflineExample_AnswerAsPrinted types the first command of the page.
func TestPage_OfflineExample_AnswerAsPrinted(t *testing.T) {
	manifest, command, answer := page(t, "yaml")[0], strings.Fields(page(t, "sh")[0]), page(t, "text")[0]
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("manifests", 0o700), os.WriteFile("manifests/shop.yaml", []byte(manifest), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := explained(t, "", command[3:]...)
	if !IsFinding(err) || strings.TrimSpace(out) != strings.TrimSpace(answer) {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, out, answer)
	}
	allowed := strings.ReplaceAll(manifest, "app: report", "app: cart")
	if out, err := explained(t, allowed, "--offline", "-f", "-", "deploy/shop/cart", "sts/shop/db:sql"); err != nil || !strings.Contains(out, "port sql/TCP: allowed\n") {
		t.Errorf("with another label: %v, printed\n%s", err, out)
	}
}

// TestPage_LintExample_FindingsAsPrinted types the second command of the page.
func TestPage_LintExample_FindingsAsPrinted(t *testing.T) {
	out, err := ran(t, page(t, "yaml")[0], "lint", "--offline", "-f", "-")
	if want := page(t, "text")[1]; !IsFinding(err) || strings.TrimSpace(out) != strings.TrimSpace(want) {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, out, want)
	}
}

func TestExplainFormats_JSONAndYAML_SameAnswer(t *testing.T) {
	manifest := page(t, "yaml")[0]
	var answers [2]judgement.Answer
	for i, c := range []struct {
		format string
		decode func([]byte, any) error
	}{{"json", json.Unmarshal}, {"yaml", func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) }}} {
		out, err := explained(t, manifest, "--offline", "-f", "-", "deploy/shop/cart", "sts/shop/db:5432", "-o", c.format)
		if !IsFinding(err) {
			t.Errorf("%s: %v", c.format, err)
		}
		if err := c.decode([]byte(out), &answers[i]); err != nil {
			t.Errorf("%s: %v in\n%s", c.format, err, out)
		}
		if !strings.Contains(out, "enforced") {
			t.Errorf("%s does not say whether policies are enforced:\n%s", c.format, out)
		}
	}
	a, b := answers[0].Paths[0].Ingress, answers[1].Paths[0].Ingress
	if a.Policy != "NetworkPolicy shop/db" || a.Allowed || a.Policy != b.Policy || *a.Remedy != *b.Remedy {
		t.Errorf("%+v, %+v", a, b)
	}
}

const two = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: a}}, status: {podIP: 10.0.0.1}}
- {apiVersion: v1, kind: Pod, metadata: {name: b, labels: {app: b}}, status: {podIP: 10.0.0.2}}
`

func TestFiles_EachKind_ReadOrReported(t *testing.T) {
	for name, c := range map[string]struct{ manifest, want string }{
		"no policy":     {two, "Pod default/a to Pod default/b, port 80/TCP: allowed\n"},
		"comments":      {"# nothing\n---\n" + two, "allowed"},
		"a policy":      {two + "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\nspec: {podSelector: {}}\n", "refused"},
		"a misspelling": {two + "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\nspec: {podSelektor: {}}\n", "podSelektor"},
		"an unknown operator": {two + `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p}
spec: {podSelector: {matchExpressions: [{key: app, operator: Like}]}}
`, errPartial.Error()},
		"another product": {two + "---\napiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: p}\n", "problem: CiliumNetworkPolicy p: Alioth does not serve this kind of cilium.io/v2"},
		"an older API":    {two + "---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: p}\n", "problem: AdminNetworkPolicy p"},
		"a cluster policy": {two + `---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: p}
spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [10.0.0.2/32]}]}]}
`, "egress of default/a: refused: ClusterNetworkPolicy p denies it by spec.egress[0], tier Admin, priority 1"},
		"a cron job": {two + `---
apiVersion: batch/v1
kind: CronJob
metadata: {name: b}
spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: b}}}}}}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: b}, ports: [{port: 80}]}
`, "CronJob default/b"},
		"no kind": {"metadata: {name: a}\n", "standard input, document 1: it has no kind"},
		"no YAML": {"a: b: c\n", "standard input, document 1"},
		"nothing": {"", "the files have no object"},
	} {
		to := "default/b:80"
		if strings.Contains(c.manifest, "kind: Service") {
			to = "svc/default/s:80"
		}
		out, err := explained(t, c.manifest, "--offline", "-f", "-", "default/a", to)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, out)
		}
	}
}

func TestFiles_Folder_ManifestsBelowRead(t *testing.T) {
	folder := t.TempDir()
	below := filepath.Join(folder, "below")
	err := errors.Join(os.Mkdir(below, 0o700), os.WriteFile(filepath.Join(below, "pods.yml"), []byte(two), 0o600),
		os.WriteFile(filepath.Join(below, "README.md"), []byte("no manifest"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := explained(t, "", "--offline", "-f", folder, "10.0.0.1", "10.0.0.2:80"); err != nil || !strings.Contains(out, "Pod default/b (VPC default, 10.0.0.2)") {
		t.Errorf("%v, printed\n%s", err, out)
	}
	if _, err := explained(t, "", "--offline", "-f", filepath.Join(folder, "none"), "default/a", "default/b:80"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestExplain_WrongArguments_CauseNamed(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"a b:80", "FROM"},
		{"shop/a shop/b", "TO"},
		{"shop/a shop/b:80 -f x", "[offline filename]"},
		{"shop/a shop/b:80 --offline -f - --network fast", "want NAMESPACE/NAME"},
		{"shop/a shop/b:80 --offline -f - --shared-services dns", "want NAMESPACE/NAME"},
		{"shop/a shop/b:80 --vpc a --network b/c", "[vpc network]"},
	} {
		if _, err := explained(t, two, strings.Fields(c.line)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in: %v", c.line, c.want, err)
		}
	}
}
