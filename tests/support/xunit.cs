// The parts of xunit that the example's tests use, because Debian has no package of xunit.
namespace Xunit
{
    public class FactAttribute : System.Attribute { }

    public static class Assert
    {
        public static void Equal(string expected, string actual)
        {
            if (expected != actual) throw new System.Exception("expected " + expected + ", but there is " + actual);
        }
    }
}

// Runs each test as xunit does: with its own instance of the class, which is disposed afterwards.
static class Program
{
    static void Main()
    {
        foreach (var type in typeof(Program).Assembly.GetTypes())
        foreach (var method in type.GetMethods())
        {
            if (!method.IsDefined(typeof(Xunit.FactAttribute), false)) continue;
            var test = System.Activator.CreateInstance(type);
            try { ((System.Threading.Tasks.Task)method.Invoke(test, null)).GetAwaiter().GetResult(); }
            finally { (test as System.IDisposable)?.Dispose(); }
            System.Console.WriteLine("passed: " + method.Name);
        }
    }
}
