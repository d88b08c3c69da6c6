package leafd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the README's recipe for GORM is a part of.
const gormProgram = `package main

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"leafd.io/leafd"
)

RECIPE

var orders *leafd.Segment

func main() {
	fake := leafd.NewFake()
	fake.SetNext("order", 1000)
	client, err := fake.Open(leafd.Settings{})
	if err != nil {
		panic(err)
	}
	orders, _ = client.Segment("order")
	for _, order := range []*Order{{Item: "tea"}, {ID: 7}, {}} {
		fmt.Println(gorm.Create(context.Background(), order), order.ID)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	client.Close(context.Background())
	fmt.Println(gorm.Create(ended, &Order{}) != nil)
}
`

// The recipe compiles, gives ids to rows without one, and its errors stop the insert.
func TestRecipeForGORM(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var recipe string
	for _, found := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if strings.Contains(found[1], "gorm.DB") {
			recipe = found[1]
		}
	}
	here, _ := filepath.Abs(".")
	dir := t.TempDir()
	stand := filepath.Join(dir, "gorm")
	source, err := os.ReadFile("testdata/gorm/gorm.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "main.go"): strings.Replace(gormProgram, "RECIPE", recipe, 1),
		filepath.Join(dir, "go.mod"): "module recipe\n\ngo 1.19\n\nrequire (\n\tgorm.io/gorm v1.25.0\n\tleafd.io/leafd v0.2.0\n)\n\n" +
			"replace (\n\tgorm.io/gorm => ./gorm\n\tleafd.io/leafd => " + here + "\n)\n",
		filepath.Join(stand, "go.mod"):  "module gorm.io/gorm\n\ngo 1.19\n",
		filepath.Join(stand, "gorm.go"): string(source),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("go", "run", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
	out, err := run.CombinedOutput()
	if want := "<nil> 1000\n<nil> 7\n<nil> 1001\ntrue\n"; err != nil || string(out) != want {
		t.Fatalf("%v: %s, where it is %s", err, out, want)
	}
}
