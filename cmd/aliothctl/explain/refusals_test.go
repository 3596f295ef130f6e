// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// refusalsPage is where the rows of this test's messages are.
const refusalsPage = "docs/reference/refusals.md"

// files returns the texts of files of the chart.
func files(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, "helm/alioth", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("find %s: %v, %d files", pattern, err, len(paths))
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
	}
	return texts
}

// rulesOf calls found for the message of each rule in a schema.
func rulesOf(schema *apiextensionsv1.JSONSchemaProps, found func(message string)) {
	if schema == nil {
		return
	}
	for _, rule := range schema.XValidations {
		found(rule.Message)
	}
	for _, property := range schema.Properties {
		rulesOf(&property, found)
	}
	if schema.Items != nil {
		rulesOf(schema.Items.Schema, found)
	}
	if schema.AdditionalProperties != nil {
		rulesOf(schema.AdditionalProperties.Schema, found)
	}
}

func TestCRDRules_Each_Explained(t *testing.T) {
	product, code := product(), []string{}
	for path, text := range files(t, "files/crds/*.yaml") {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, version := range crd.Spec.Versions {
			rulesOf(version.Schema.OpenAPIV3Schema, func(message string) {
				if message == "" {
					t.Errorf("%s has a rule without a message", path)
				}
				code = append(code, message)
				refused := "The object is invalid: spec.x: Invalid value: \"y\": " + message
				if !explainedAs(Find(product, refused), "message of a rule", crd.Spec.Names.Kind) {
					t.Errorf("%s has no row for %q of the kind %s", refusalsPage, message, crd.Spec.Names.Kind)
				}
			})
		}
	}
	if slices.Sort(code); len(slices.Compact(code)) < 100 {
		t.Fatalf("%d rules in the CRDs: want more", len(code))
	}
	for _, message := range words("message of a rule") {
		if !slices.Contains(code, message) {
			t.Errorf("%s has a row for %q, which no CRD has", refusalsPage, message)
		}
	}
}

// explainedAs reports whether an entry has a kind, and is of a kind of objects.
func explainedAs(found []Entry, kind, of string) bool {
	return slices.ContainsFunc(found, func(entry Entry) bool {
		return strings.HasPrefix(entry.Kind, kind) && slices.Contains(strings.Split(entry.Of, ", "), of)
	})
}

var (
	policyName = regexp.MustCompile(`kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+)`)
	// message begins the message of a policy, its text is on the same line or in those below.
	message = regexp.MustCompile(`(?m)^( +)message(Expression)?: (>-\n((?:[ ]*\S.*\n)+?)( +reason:| +- |---| *\{\{- (?:end|if)|\n)|.*)`)
	// key is how a message begins.
	key = regexp.MustCompile(`(?m)^ +message(Expression)?:`)
	// literal is a text in an expression of CEL. value is a value that the template or an
	// expression puts in.
	literal = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'`)
	value   = regexp.MustCompile(`\{\{.*?\}\}`)
)

// shortest is the length of the shortest part of a message that somebody would look for.
const shortest = 25

// partsOf returns the parts of a message that do not change.
func partsOf(text string, expression bool) (parts []string) {
	texts := []string{strings.Trim(text, `"'`)}
	if expression {
		texts = nil
		for _, found := range literal.FindAllStringSubmatch(text, -1) {
			texts = append(texts, strings.NewReplacer(`\'`, `'`, `\"`, `"`).Replace(found[1]))
		}
	}
	for _, one := range texts {
		for _, part := range value.Split(strings.NewReplacer("''", "'", "`", "{{}}").Replace(one), -1) {
			if part = strings.Trim(strings.Join(strings.Fields(part), " "), ` ",`); len(part) >= shortest {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

func TestAdmissionMessages_Each_PolicyFound(t *testing.T) {
	product, count := product(), 0
	for path, text := range files(t, "templates/admission-*.yaml") {
		for _, document := range strings.Split(text, "\n---") {
			name := policyName.FindStringSubmatch(document)
			if name == nil {
				continue
			}
			found := Find(product, name[1])
			if len(found) != 1 {
				t.Fatalf("%s: %d rows for %s", path, len(found), name[1])
			}
			all := strings.Join(found[0].Messages, "\n")
			messages := message.FindAllStringSubmatch(document, -1)
			if len(messages) != len(key.FindAllString(document, -1)) {
				t.Errorf("%s, %s: %d messages were read, want %d", path, name[1], len(messages), len(key.FindAllString(document, -1)))
			}
			for _, of := range messages {
				body := of[3]
				if of[4] != "" {
					body = of[4]
				}
				for _, part := range partsOf(body, of[2] != "") {
					count++
					if !strings.Contains(all, part) {
						t.Errorf("%s has no %q at %s", refusalsPage, part, name[1])
					}
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d parts of messages were found, want 100 or more", count)
	}
}

// refusal is the text of a template that ends the rendering.
var refusal = regexp.MustCompile(`(?:fail|required) (?:\(printf )?"((?:[^"\\]|\\.)*)"`)

// verb is where a value is in it.
var verb = regexp.MustCompile(`%[a-z]`)

func TestChartRefusals_Each_Explained(t *testing.T) {
	product, count := product(), 0
	for path, text := range files(t, "templates/*.yaml", "templates/*.tpl") {
		if calls := strings.Count(text, "{{- fail "); calls > len(refusal.FindAllString(text, -1)) {
			t.Errorf("%s has a refusal that this test does not read", path)
		}
		for _, found := range refusal.FindAllStringSubmatch(text, -1) {
			count++
			printed := "execution error at (alioth/templates/x.yaml:1:2): " + verb.ReplaceAllString(found[1], "net1")
			if !explainedBy(Find(product, printed), "message of the chart") {
				t.Errorf("%s has no row for %q", refusalsPage, found[1])
			}
		}
	}
	if count < 28 {
		t.Errorf("%d refusals were found, want 28 or more", count)
	}
}

func explainedBy(found []Entry, kind string) bool {
	return slices.ContainsFunc(found, func(entry Entry) bool { return entry.Kind == kind })
}

func TestFind_MessageWithNames_EntryFound(t *testing.T) {
	const tables = "| message of a rule | what it means | what to do |\n| --- | --- | --- |\n| `one rule`<br>`another … rule` | m | r |\n| `a … and is a long text of a rule, because` | m | r |\n\n" +
		"| admission policy | what it means | what to do |\n| --- | --- | --- |\n| alioth-x | m | r |\n\n" +
		"| message of an admission policy | see |\n| --- | --- |\n| `the pod \"…\" is … none`<br>`the second message` | alioth-x |\n"
	entries := Entries(tables, "docs/reference")
	Refer(entries, tables)
	for text, want := range map[string]string{
		"spec.x: Invalid value: another very long rule": "another … rule",
		"x: one rule":                                       "one rule",
		`denied: the pod "a" is at last none.`:              "alioth-x",
		"the second message":                                "alioth-x",
		`the pod "a" is there`:                              "",
		"and is a long text of a rule, be":                  "a … and is a long text of a rule, because",
		"a pod and is a long text of a rule, because of it": "a … and is a long text of a rule, because",
		"a rule": "",
	} {
		found := Find(entries, text)
		if want == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || !slices.Contains(found[0].Words, want) {
			t.Errorf("%q finds %v, want %q", text, found, want)
		}
	}
}
