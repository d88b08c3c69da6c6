package io.leafd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.StringWriter;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs what README.md shows. */
@Timeout(60)
class ReadmeTest {
    private static final Path README = Path.of(System.getProperty("leafd.tree", "."), "README.md");

    @Test
    void theExamplesCompileAndRun(@TempDir Path folder) throws Exception {
        FakeCluster cluster = new FakeCluster();
        cluster.nowMs = System.currentTimeMillis();
        try (FakeServer server = new FakeServer(cluster)) {
            Matcher matcher = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL)
                    .matcher(Files.readString(README));
            int count = 0;
            while (matcher.find()) {
                String code = matcher.group(1)
                        .replaceAll("http://(10\\.0\\.0\\.[0-9]|127\\.0\\.0\\.1):[0-9]+", server.url());
                run(folder, "Example" + ++count, code);
            }
            assertTrue(count >= 2, count + " examples");
        }
    }

    private static void run(Path folder, String name, String code) throws Exception {
        String source = "import com.sankuai.inf.leaf.common.*;\n"
                + "import com.sankuai.inf.leaf.service.*;\nimport io.leafd.client.*;\n"
                + "import java.time.Duration;\nimport java.util.concurrent.*;\n"
                + "public class " + name + " { public static void run() throws Exception {\n"
                + code + "} }\n";
        JavaFileObject file = new SimpleJavaFileObject(URI.create("string:///" + name + ".java"),
                JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                return source;
            }
        };
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter errors = new StringWriter();
        boolean good = compiler.getTask(errors, null, null, List.of("-d", folder.toString(),
                "-classpath", System.getProperty("java.class.path")), null, List.of(file)).call();
        assertTrue(good, () -> source + errors);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            Method method = loader.loadClass(name).getMethod("run");
            assertEquals(void.class, method.getReturnType());
            method.invoke(null);
        }
    }
}
